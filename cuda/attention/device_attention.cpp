#include "attention/device_attention.h"

#include <algorithm>
#include <utility>

#include "attention/append/append.h"
#include "attention/narrow/narrow.h"
#include "attention/short/short.h"
#include "attention/wide/wide.h"
#include "rope/rope_table.h"
#include "runtime/check.h"
#include "runtime/head_rows.h"
#include "runtime/with_type.h"

namespace nanolith::cuda {

namespace {

HeadShape head_shape(const AttentionSpec& spec) {
    return {spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.page_size};
}

// Whether a step within the capacities may have a query tile for the wide kernel: prefill, segments that sequences
// share, or many query heads for each KV head.
bool may_be_wide(const AttentionSpec& spec, const PlanCapacity& capacity) {
    const int heads_per_kv = spec.num_heads / spec.num_kv_heads;
    const bool prefill = capacity.rows > capacity.sequences;
    const bool shared = capacity.sequences > 1 && capacity.segments > capacity.sequences;
    return capacity.rows * heads_per_kv > kNarrowVectors && (prefill || shared || heads_per_kv > kNarrowVectors);
}

// Whether the capacities are for prompts so long that pairs of multiprocessors do them faster, and the kernel for pairs
// takes the spec (attend_wide_pairs).
bool long_prefill(const AttentionSpec& spec, const LayerKinds& layers, const PlanCapacity& capacity) {
    constexpr int kLongPrompt = 8192;
    const bool windowed = std::ranges::any_of(layers.windows, [](int32_t window) { return window != 0; });
    return spec.head_dim == 128 && !windowed && spec.softcap == 0 && capacity.rows / capacity.sequences >= kLongPrompt;
}

PlanShape make_plan_shape(const AttentionSpec& spec, const LayerKinds& layers, const PlanCapacity& capacity,
                          const GpuFacts& gpu) {
    PlanShape shape;
    shape.num_heads = spec.num_heads;
    shape.num_kv_heads = spec.num_kv_heads;
    shape.head_dim = spec.head_dim;
    shape.page_size = spec.page_size;
    shape.multiprocessors = gpu.multiprocessors;
    shape.tile_bytes = 2 * kNarrowTokens * spec.head_dim * static_cast<int>(dtype_bytes(spec.kv_dtype));
    shape.causal = spec.causal;
    shape.batch_invariant = spec.batch_invariant;
    shape.cascade_rows = capacity.cascade_rows;
    shape.fp8 = spec.kv_dtype == DType::f8_e4m3;
    shape.has_short = spec.dtype != DType::f32 && !shape.fp8 && !spec.batch_invariant && short_supports(gpu.major);
    if (spec.dtype == DType::f32) {
        shape.kernel = NarrowKernel::plain;
    } else if (shape.fp8) {
        shape.kernel = NarrowKernel::hopper;
    } else if (!spec.batch_invariant && narrow_supports(head_shape(spec), gpu.major) &&
               wide_supports(head_shape(spec), gpu.major)) {
        // Not for batch_invariant: which of its warps adds up a tile depends on the items that the block did before.
        shape.kernel = NarrowKernel::hopper;
        if (may_be_wide(spec, capacity))
            shape.wide_vectors = long_prefill(spec, layers, capacity) ? 2 * kWideVectors : kWideVectors;
        shape.appends = narrow_appends(spec.head_dim, shape.fp8);
    }
    return shape;
}

Result<DeviceBuffer> upload(const std::vector<float>& from, const char* what, cudaStream_t stream) {
    const size_t bytes = from.size() * sizeof(float);
    NL_ASSIGN(DeviceBuffer to, allocate_device(bytes, what));
    if (bytes > 0) NL_CUDA_TRY(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyHostToDevice, stream));
    return to;
}

// The keys and values of a call, and what is applied to them and to its queries.
template <typename T>
ProjectedRows<T> projected_rows(const AppendCall& call) {
    ProjectedRows<T> rows;
    rows.keys = static_cast<const T*>(call.keys.data);
    rows.key_layout = layout_of(call.keys);
    rows.values = static_cast<const T*>(call.values.data);
    rows.value_layout = layout_of(call.values);
    rows.bias = static_cast<const T*>(call.bias);
    rows.q_norm = call.q_norm;
    rows.k_norm = call.k_norm;
    return rows;
}

}  // namespace

Result<void> check_attention(const AttentionSpec& spec, const GpuFacts& gpu) {
    if (spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim) {
        return fail(NL_ERROR_UNSUPPORTED, "head_dim is ", spec.head_dim, ", CUDA takes multiples of 8 up to ",
                    kMaxHeadDim);
    }
    const bool fp8 = spec.kv_dtype == DType::f8_e4m3 && spec.dtype != DType::f32;
    if (spec.kv_dtype != spec.dtype && !fp8) {
        return fail(NL_ERROR_UNSUPPORTED, "kv_dtype is ", dtype_name(spec.kv_dtype), " with ", dtype_name(spec.dtype),
                    " queries; CUDA takes the queries' format, or float8 with 16-bit queries");
    }
    if (fp8 && spec.batch_invariant) {
        return fail(NL_ERROR_UNSUPPORTED, "kv_dtype is float8_e4m3 with batch_invariant: on CUDA no kernel for float8 ",
                    "pages has an order of sums that is a row's own: expected the format of the activations, ",
                    dtype_name(spec.dtype));
    }
    if (fp8 && !(narrow_supports(head_shape(spec), gpu.major) && spec.head_dim % 16 == 0)) {
        return fail(NL_ERROR_UNSUPPORTED, "kv_dtype is float8_e4m3, head_dim is ", spec.head_dim,
                    " and the compute capability ", gpu.major,
                    ".x; CUDA takes float8 on 9.x with a head_dim that is a multiple of 16");
    }
    return {};
}

DeviceAttention::DeviceAttention(const AttentionSpec& spec, LayerKinds layers, const PlanCapacity& capacity,
                                 const GpuFacts& gpu)
    : spec_(spec),
      layers_(std::move(layers)),
      max_rows_(capacity.rows),
      heads_(head_shape(spec)),
      plan_shape_(make_plan_shape(spec, layers_, capacity, gpu)) {
    for (const int32_t window : layers_.windows) {
        PlanShape shape = plan_shape_;
        shape.window = window;
        planners_.emplace_back(shape, capacity.rows);
    }
    plans_.resize(planners_.size());
}

Result<void> DeviceAttention::allocate(cudaStream_t stream) {
    NL_ASSIGN(partials_, Partials::create(plan_shape_, spec_.head_dim, max_rows_, stream));
    for (const RopeSpec& rope : layers_.ropes) {
        NL_ASSIGN(DeviceRope made, make_rope(rope, stream));
        ropes_.push_back(std::move(made));
    }
    NL_CUDA_TRY(cudaStreamSynchronize(stream));
    return {};
}

void DeviceAttention::release() {
    partials_ = Partials();
    ropes_.clear();
}

Result<DeviceAttention::DeviceRope> DeviceAttention::make_rope(const RopeSpec& rope, cudaStream_t stream) const {
    const size_t pairs = rope.frequencies.size();
    DeviceRope made;
    NL_ASSIGN(made.frequencies, upload(rope.frequencies, "the frequencies", stream));
    NL_ASSIGN(made.magnitudes, upload(rope.magnitudes, "the magnitudes", stream));
    NL_ASSIGN(made.rotations, allocate_device(pairs * static_cast<size_t>(spec_.max_position) * sizeof(float2),
                                              "rotations of all positions"));
    NL_TRY(fill_rope_table(made.frequencies.as<float>(), made.magnitudes.as<float>(), static_cast<int>(pairs),
                           spec_.max_position, made.rotations.as<float2>(), stream));
    return made;
}

std::span<const AttentionPlan* const> DeviceAttention::plan(const AttentionStep& step, const WrittenRows& written) {
    for (size_t i = 0; i < planners_.size(); ++i) plans_[i] = &planners_[i].plan(step, written);
    return plans_;
}

size_t DeviceAttention::plan_of(int32_t window) const {
    return static_cast<size_t>(std::ranges::find(layers_.windows, window) - layers_.windows.begin());
}

bool DeviceAttention::appends(const WorkCounts& counts) {
    return counts.short_counts.sequences > 0 || counts.appends;
}

bool DeviceAttention::lets_next_begin(const WorkCounts& counts, int rows) const {
    if (counts.short_counts.sequences > 0) return true;
    // Behind the narrow kernel steps of two and four rows were up to 10% faster with it on an H200, those of one and of
    // eight up to 4% slower.
    return plan_shape_.kernel == NarrowKernel::hopper && counts.wide == 0 && rows > 1 && rows <= 4;
}

const DeviceAttention::DeviceRope* DeviceAttention::rope_of(int32_t index) const {
    return index == kNoRope ? nullptr : &ropes_[index];
}

template <typename T>
Result<void> DeviceAttention::append_typed(const AppendCall& call, cudaStream_t stream) const {
    AppendArguments<T> a;
    a.queries = static_cast<T*>(call.queries.data);
    a.query_layout = layout_of(call.queries);
    a.projected = projected_rows<T>(call);
    if (const DeviceRope* const rope = rope_of(call.rope)) {
        a.frequencies = rope->frequencies.as<float>();
        a.magnitudes = rope->magnitudes.as<float>();
    }
    a.key_positions = call.key_positions;
    a.slots = call.slots;
    a.pages = call.pages.data;
    a.fp8 = plan_shape_.fp8;
    a.key_factor = 1.0F / call.pages.k_scale;
    a.value_factor = 1.0F / call.pages.v_scale;
    return append_to_pages(a, heads_, call.rows, call.early, stream);
}

template <typename T>
AttentionArguments<T> DeviceAttention::arguments_of(const AttentionCall& call) const {
    AttentionArguments<T> a;
    a.queries = static_cast<const T*>(call.queries.data);
    a.query_layout = layout_of(call.queries);
    a.pages = call.pages.data;
    if (const DeviceRope* const rope = rope_of(call.rope)) a.rope = rope->rotations.as<float2>();
    a.work = call.work;
    a.head_groups = head_groups(plan_shape_);
    a.partial = partials_.view();
    a.output = static_cast<T*>(call.output.data);
    a.output_layout = layout_of(call.output);
    a.lse = call.lse;
    a.rule = rule_of(call);
    return a;
}

template <typename T>
Result<void> DeviceAttention::run_typed(const AttentionCall& call, cudaStream_t stream) const {
    AttentionLaunch what = launch_of(call.counts, plan_shape_);
    what.early = call.early;
    return attend(arguments_of<T>(call), heads_, what, stream);
}

AttentionRule DeviceAttention::rule_of(const AttentionCall& call) const {
    return {.scale = spec_.scale * call.pages.k_scale,
            .value_scale = call.pages.v_scale,
            .softcap = spec_.softcap,
            .window = call.window,
            .causal = spec_.causal};
}

template <typename T>
Result<void> DeviceAttention::run_appending(const AppendCall& rows, const AttentionCall& call,
                                            cudaStream_t stream) const {
    if constexpr (sizeof(T) == 2) {
        NarrowLaunch what;
        what.blocks = launch_of(call.counts, plan_shape_).narrow_blocks;
        what.early = call.early;
        what.append_to = rows.pages.data;
        return attend_narrow(arguments_of<T>(call), projected_rows<T>(rows), heads_, what, stream);
    }
    return fail(NL_ERROR_INTERNAL, "float32 has no kernel that appends");
}

template <typename T>
Result<void> DeviceAttention::run_short(const AppendCall& rows, const AttentionCall& call, cudaStream_t stream) const {
    if constexpr (sizeof(T) == 2) {
        ShortArguments<T> a;
        a.queries = static_cast<const T*>(rows.queries.data);
        a.query_layout = layout_of(rows.queries);
        a.projected = projected_rows<T>(rows);
        if (const DeviceRope* const rope = rope_of(rows.rope)) a.rope = rope->rotations.as<float2>();
        a.pages = static_cast<T*>(rows.pages.data);
        a.work = call.short_work;
        a.output = static_cast<T*>(call.output.data);
        a.output_layout = layout_of(call.output);
        a.rule = rule_of(call);
        return attend_short(a, heads_, call.counts.short_counts, call.early, stream);
    }
    return fail(NL_ERROR_INTERNAL, "float32 has no kernel for short contexts");
}

template <typename T>
Result<void> DeviceAttention::probe_typed(const ProbeCall& call, cudaStream_t stream) const {
    ProbeArguments<T> a;
    a.queries = static_cast<const T*>(call.queries.data);
    a.query_layout = layout_of(call.queries);
    a.pages = call.pages.data;
    a.fp8 = plan_shape_.fp8;
    if (const DeviceRope* const rope = rope_of(call.rope)) a.rope = rope->rotations.as<float2>();
    a.probed = call.probed;
    a.num_pages = call.num_pages;
    a.num_tokens = call.num_tokens;
    a.first_row = call.first_row;
    a.num_rows = call.num_rows;
    a.first_position = call.first_position;
    a.rule = {.scale = spec_.scale * call.pages.k_scale, .softcap = spec_.softcap};
    a.lse = call.lse;
    a.totals = call.totals;
    a.shares = call.shares;
    a.weights = call.weights;
    return add_token_weights(a, heads_, stream);
}

Result<void> DeviceAttention::append_and_run(const AppendCall& rows, const AttentionCall& call,
                                             cudaStream_t stream) const {
    return with_type(spec_.dtype, [&]<typename T>(T) {
        return call.counts.appends ? run_appending<T>(rows, call, stream) : run_short<T>(rows, call, stream);
    });
}

Result<void> DeviceAttention::append(const AppendCall& call, cudaStream_t stream) const {
    return with_type(spec_.dtype, [&]<typename T>(T) { return append_typed<T>(call, stream); });
}

Result<void> DeviceAttention::probe(const ProbeCall& call, cudaStream_t stream) const {
    return with_type(spec_.dtype, [&]<typename T>(T) { return probe_typed<T>(call, stream); });
}

Result<void> DeviceAttention::run(const AttentionCall& call, cudaStream_t stream) const {
    return with_type(spec_.dtype, [&]<typename T>(T) { return run_typed<T>(call, stream); });
}

}  // namespace nanolith::cuda
