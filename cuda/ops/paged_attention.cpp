#include "ops/paged_attention.h"

#include <algorithm>
#include <array>

#include "attention/narrow.h"
#include "attention/partials.h"
#include "attention/rope_table.h"
#include "attention/wide.h"
#include "batch/work_arrays.h"
#include "ops/rows.h"
#include "runtime/check.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

// Memory for a plan's arrays grows with rows times segments in the worst case; a plan that would need more than this
// many spans is refused when it is set.
constexpr int64_t kMaxSpans = int64_t{1} << 20;

// Whether steps within the capacities may have more than 16 vectors in a line: prefill, segments that sequences share,
// or many query heads for each KV head.
bool may_be_wide(const AttentionSpec& spec, const PlanCapacity& capacity) {
    constexpr int kNarrowVectors = 16;
    const int group = spec.num_heads / spec.num_kv_heads;
    const bool shared = capacity.sequences > 1 && capacity.segments > capacity.sequences;
    return capacity.rows * group > kNarrowVectors &&
           (capacity.rows > capacity.sequences || shared || group > kNarrowVectors);
}

// Whether the capacities are for prompts so long that pairs of multiprocessors do them faster.
bool long_prefill(const AttentionSpec& spec, const PlanCapacity& capacity) {
    constexpr int kLongPrompt = 8192;
    return spec.head_dim == 128 && spec.window == 0 && spec.softcap == 0 &&
           capacity.rows / capacity.sequences >= kLongPrompt;
}

PlanShape plan_shape(const OpsDevice& device, const AttentionSpec& spec, const PlanCapacity& capacity) {
    PlanShape shape;
    shape.num_heads = spec.num_heads;
    shape.num_kv_heads = spec.num_kv_heads;
    shape.page_size = spec.page_size;
    shape.multiprocessors = device.multiprocessors;
    shape.tile_bytes = 2 * kNarrowTokens * spec.head_dim * static_cast<int>(dtype_bytes(spec.kv_dtype));
    shape.causal = spec.causal;
    shape.window = spec.window;
    shape.fp8 = spec.kv_dtype == DType::f8_e4m3;
    const HeadShape heads{spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.page_size};
    if (spec.dtype == DType::f32) {
        shape.kernel = NarrowKernel::plain;
    } else if (shape.fp8) {
        shape.kernel = NarrowKernel::hopper;
    } else if (narrow_takes(heads, device.major) && wide_takes(heads, device.major)) {
        shape.kernel = NarrowKernel::hopper;
        if (may_be_wide(spec, capacity))
            shape.wide_vectors = long_prefill(spec, capacity) ? 2 * kWideVectors : kWideVectors;
    }
    return shape;
}

// Room for every plan within the capacities.
WorkCounts most_work(const PlanShape& shape, const PlanCapacity& capacity) {
    const int64_t rows = capacity.rows;
    const PlanBounds bounds = plan_bounds(shape, rows, capacity.sequences, capacity.segments);
    const PartialBounds partials = partial_bounds(shape, rows);
    WorkCounts counts;
    counts.units = static_cast<size_t>(rows * row_units(shape).count);
    counts.queries = static_cast<size_t>(bounds.queries);
    counts.spans = static_cast<size_t>(std::min(bounds.spans, kMaxSpans));
    counts.narrow = static_cast<size_t>(bounds.narrow);
    counts.wide = static_cast<size_t>(bounds.wide);
    counts.partials = static_cast<size_t>(partials.narrow + partials.wide);
    counts.merges = counts.units;
    return counts;
}

// Page-locked memory whose copy to the device has ended before it is written again; two take turns.
struct Stage {
    PinnedBuffer host;
    Event copied;
};

class CudaPagedAttention final : public PagedAttention {
  public:
    CudaPagedAttention(const OpsDevice& device, const AttentionSpec& spec, const PlanCapacity& capacity)
        : device_(device),
          spec_(spec),
          capacity_(capacity),
          shape_{spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.page_size},
          plan_shape_(plan_shape(device, spec, capacity)),
          planner_(plan_shape_, capacity.rows) {}

    ~CudaPagedAttention() override {
        // Freeing device memory waits for the work that uses it.
        const DeviceGuard guard(device_.index);
        work_ = DeviceBuffer();
        slots_ = DeviceBuffer();
        rope_ = DeviceBuffer();
        partials_ = Partials();
        work_stages_ = {};
        slot_stages_ = {};
    }

    Result<void> initialise() {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        Layout layout;
        arrays_ = WorkArrays(layout, most_work(plan_shape_, capacity_));
        page_table_ = layout.reserve<int32_t>(static_cast<size_t>(capacity_.page_table));
        NL_ASSIGN(work_, allocate_device(layout.used(), "the plan"));
        NL_CUDA_TRY(cudaMemsetAsync(work_.data(), 0, layout.used(), device_.stream));
        const size_t slot_bytes = static_cast<size_t>(capacity_.rows) * 2 * sizeof(int32_t);
        NL_ASSIGN(slots_, allocate_device(slot_bytes, "the slots"));
        static_assert(kNoSlot == -1, "bytes of 0xff are no slot");
        NL_CUDA_TRY(cudaMemsetAsync(slots_.data(), 0xff, slot_bytes, device_.stream));
        NL_TRY(make_stages(work_stages_, layout.used()));
        NL_TRY(make_stages(slot_stages_, slot_bytes));
        NL_ASSIGN(partials_, Partials::create(plan_shape_, spec_.head_dim, capacity_.rows, device_.stream));
        NL_TRY(make_rope_table());
        NL_CUDA_TRY(cudaStreamSynchronize(device_.stream));
        return {};
    }

    Result<void> set(const AttentionStep& step) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        const AttentionInput input{step.page_table, step.segments, step.sequences, step.positions};
        const AttentionPlan& plan = planner_.plan(input);
        NL_TRY(check_room(plan));
        NL_ASSIGN(Stage* const stage, next_stage(work_stages_, work_turn_));
        arrays_.put(stage->host.data(), plan);
        put(stage->host.data() + page_table_, step.page_table, 0);
        const size_t used = page_table_ + step.page_table.size_bytes();
        return send(*stage, work_, used);
    }

    Result<void> set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        NL_ASSIGN(Stage* const stage, next_stage(slot_stages_, slot_turn_));
        const size_t to_positions = static_cast<size_t>(capacity_.rows) * sizeof(int32_t);
        // Rows without a slot: what is launched depends on the capacities alone.
        std::fill_n(stage->host.as<int32_t>(), capacity_.rows, kNoSlot);
        put(stage->host.data(), slots, 0);
        put(stage->host.data() + to_positions, key_positions, 0);
        return send(*stage, slots_, slots_.bytes());
    }

    Result<void> append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        AppendRows arguments;
        arguments.k = k;
        arguments.v = v;
        arguments.pages = pages;
        arguments.slots = slots_.as<int32_t>();
        arguments.key_positions = slots_.as<int32_t>() + capacity_.rows;
        arguments.rope = rope();
        arguments.rows = capacity_.rows;
        arguments.dtype = spec_.dtype;
        arguments.kv_dtype = spec_.kv_dtype;
        return append_rows(arguments, shape_, device_.stream);
    }

    Result<void> run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                     float* lse) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        const AttentionLaunch what = launch_of(arrays_.counts(), plan_shape_);
        switch (spec_.dtype) {
            case DType::f16:
                return attend(arguments<__half>(q, pages, out, lse), shape_, what, device_.stream);
            case DType::bf16:
                return attend(arguments<__nv_bfloat16>(q, pages, out, lse), shape_, what, device_.stream);
            case DType::f32:
            case DType::f8_e4m3:  // of files and pages
                break;
        }
        return attend(arguments<float>(q, pages, out, lse), shape_, what, device_.stream);
    }

  private:
    [[nodiscard]] const float2* rope() const { return rope_.as<float2>(); }

    static Result<void> make_stages(std::array<Stage, 2>& stages, size_t bytes) {
        for (Stage& stage : stages) {
            NL_ASSIGN(stage.host, allocate_pinned(bytes, "the plan"));
            NL_ASSIGN(stage.copied, create_event());
        }
        return {};
    }

    static Result<Stage*> next_stage(std::array<Stage, 2>& stages, size_t& turn) {
        Stage& stage = stages[turn];
        turn = 1 - turn;
        NL_CUDA_TRY(cudaEventSynchronize(stage.copied.get()));
        return &stage;
    }

    Result<void> send(const Stage& stage, const DeviceBuffer& to, size_t bytes) {
        NL_CUDA_TRY(cudaMemcpyAsync(to.data(), stage.host.data(), bytes, cudaMemcpyHostToDevice, device_.stream));
        NL_CUDA_TRY(cudaEventRecord(stage.copied.get(), device_.stream));
        return {};
    }

    Result<void> make_rope_table() {
        const size_t pairs = spec_.rope_frequencies.size();
        if (pairs == 0) return {};
        NL_ASSIGN(const DeviceBuffer frequencies, allocate_device(pairs * sizeof(float), "the frequencies"));
        NL_ASSIGN(rope_, allocate_device(pairs * static_cast<size_t>(spec_.max_position) * sizeof(float2),
                                         "rotations of all positions"));
        NL_CUDA_TRY(cudaMemcpyAsync(frequencies.data(), spec_.rope_frequencies.data(), pairs * sizeof(float),
                                    cudaMemcpyHostToDevice, device_.stream));
        NL_TRY(fill_rope_table(frequencies.as<float>(), nullptr, static_cast<int>(pairs), spec_.max_position,
                               rope_.as<float2>(), device_.stream));
        NL_CUDA_TRY(cudaStreamSynchronize(device_.stream));
        return {};
    }

    [[nodiscard]] Result<void> check_room(const AttentionPlan& plan) const {
        const WorkCounts& room = arrays_.counts();
        if (plan.spans.size() > room.spans) {
            return fail(NL_ERROR_UNSUPPORTED, "the step needs ", plan.spans.size(),
                        " spans of tokens, the plan has room for ", room.spans,
                        ": give it fewer rows or segments a sequence");
        }
        if (plan.queries.size() > room.queries || plan.narrow.size() > room.narrow || plan.wide.size() > room.wide ||
            plan.partials.size() > room.partials) {
            return fail(NL_ERROR_INTERNAL, "the step needs more items than its capacities allow for");
        }
        return {};
    }

    template <typename T>
    AttentionArguments<T> arguments(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                                    float* lse) const {
        AttentionArguments<T> a;
        a.queries = static_cast<const T*>(q.data);
        a.query_layout = layout_of(q);
        a.pages = pages.data;
        a.rope = rope();
        a.work = arrays_.view(work_.data());
        a.work.page_table = reinterpret_cast<const int32_t*>(work_.data() + page_table_);
        a.units = row_units(plan_shape_);
        a.partial = partials_.view();
        a.output = static_cast<T*>(out.data);
        a.output_layout = layout_of(out);
        a.lse = lse;
        a.scale = spec_.scale * pages.k_scale;
        a.value_scale = pages.v_scale;
        a.softcap = spec_.softcap;
        a.window = spec_.window;
        a.causal = spec_.causal;
        return a;
    }

    const OpsDevice& device_;
    const AttentionSpec spec_;
    const PlanCapacity capacity_;
    const HeadShape shape_;
    const PlanShape plan_shape_;
    AttentionPlanner planner_;
    WorkArrays arrays_;
    size_t page_table_ = 0;
    DeviceBuffer work_;
    DeviceBuffer slots_;  // [rows] slots, [rows] positions of keys
    DeviceBuffer rope_;
    Partials partials_;
    std::array<Stage, 2> work_stages_;
    std::array<Stage, 2> slot_stages_;
    size_t work_turn_ = 0;
    size_t slot_turn_ = 0;
};

}  // namespace

Result<std::unique_ptr<PagedAttention>> create_paged_attention(const OpsDevice& device, const AttentionSpec& spec,
                                                               const PlanCapacity& capacity) {
    if (spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim) {
        return fail(NL_ERROR_UNSUPPORTED, "head_dim is ", spec.head_dim, ", CUDA takes multiples of 8 up to ",
                    kMaxHeadDim);
    }
    const bool same = spec.kv_dtype == spec.dtype;
    const bool fp8 = spec.kv_dtype == DType::f8_e4m3 && spec.dtype != DType::f32;
    if (!same && !fp8) {
        return fail(NL_ERROR_UNSUPPORTED, "kv_dtype is ", dtype_name(spec.kv_dtype), " with ", dtype_name(spec.dtype),
                    " queries; CUDA takes the queries' format, or float8 with 16-bit queries");
    }
    const HeadShape heads{spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.page_size};
    if (fp8 && !(narrow_takes(heads, device.major) && spec.head_dim % 16 == 0)) {
        return fail(NL_ERROR_UNSUPPORTED, "kv_dtype is float8_e4m3 with heads of ", spec.head_dim,
                    " elements on compute capability ", device.major,
                    ".x; CUDA takes it on 9.x with heads of a multiple of 16");
    }
    auto attention = std::make_unique<CudaPagedAttention>(device, spec, capacity);
    NL_TRY(attention->initialise());
    return std::unique_ptr<PagedAttention>(std::move(attention));
}

}  // namespace nanolith::cuda
