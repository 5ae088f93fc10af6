#include "executor/executor.h"

#include <algorithm>

#include "attention/append.h"
#include "attention/attention.h"
#include "attention/narrow.h"
#include "attention/partials.h"
#include "attention/plan.h"
#include "attention/rope_table.h"
#include "attention/wide.h"
#include "backend/check_batch.h"
#include "backend/check_model.h"
#include "batch/device_batch.h"
#include "embed/embed.h"
#include "executor/dtype_of.h"
#include "executor/graph_cache.h"
#include "executor/scratch.h"
#include "executor/weights.h"
#include "experts/experts.h"
#include "linear/gate.h"
#include "linear/matmul.h"
#include "linear/matvec.h"
#include "norm/rms_norm.h"
#include "runtime/check.h"
#include "runtime/stream.h"
#include "sample/sample.h"
#include "sample/softcap.h"

namespace nanolith::cuda {

namespace {

// Batches of more rows run without a graph: their launches cost little beside their work.
constexpr int kMaxGraphRows = 64;

struct GpuFacts {
    int multiprocessors = 0;
    int major = 0;  // compute capability
};

// Plans are for layers of one window.
std::vector<int32_t> distinct_windows(const ModelSpec& spec) {
    std::vector<int32_t> windows;
    for (const LayerSpec& layer : spec.layers) {
        if (std::ranges::find(windows, layer.window) == windows.end()) windows.push_back(layer.window);
    }
    return windows;
}

template <typename T>
PlanShape plan_shape(const ModelSpec& spec, const HeadShape& heads, const GpuFacts& gpu) {
    PlanShape shape;
    shape.num_heads = spec.num_heads;
    shape.num_kv_heads = spec.num_kv_heads;
    shape.page_size = heads.page_size;
    shape.multiprocessors = gpu.multiprocessors;
    shape.tile_bytes = 2 * kNarrowTokens * spec.head_dim * static_cast<int>(sizeof(T));
    shape.kernel = sizeof(T) == 2 ? NarrowKernel::portable : NarrowKernel::plain;
    if (sizeof(T) == 2 && narrow_takes(heads, gpu.major) && wide_takes(heads, gpu.major)) {
        shape.kernel = NarrowKernel::hopper;
        shape.wide_vectors = kWideVectors;
    }
    return shape;
}

template <typename T>
class CudaExecutor final : public Executor {
  public:
    CudaExecutor(int device, const GpuFacts& gpu, ModelSpec spec, const ExecutorOptions& options)
        : device_(device),
          multiprocessors_(gpu.multiprocessors),
          spec_(std::move(spec)),
          options_(options),
          heads_{spec_.num_heads, spec_.num_kv_heads, spec_.head_dim, options.page_size},
          windows_(distinct_windows(spec_)),
          plan_shape_(plan_shape<T>(spec_, heads_, gpu)) {
        for (const int32_t window : windows_) {
            PlanShape shape = plan_shape_;
            shape.window = window;
            planners_.emplace_back(shape, options.max_rows);
        }
    }

    ~CudaExecutor() override {
        // The members free their memory on this device. Should the device not be had, they fail in silence.
        const DeviceGuard guard(device_);
        if (stream_) cudaStreamSynchronize(stream_.get());
        release();
    }

    Result<void> initialise(const ModelWeights& weights) {
        NL_ASSIGN(stream_, create_stream());
        NL_ASSIGN(matmul_, Matmul::create());
        NL_ASSIGN(scratch_, allocate_scratch(spec_, heads_, options_));
        NL_ASSIGN(partials_, Partials::create(plan_shape_, spec_.head_dim, options_.max_rows, stream_.get()));
        NL_ASSIGN(experts_, Experts<T>::create(spec_, options_.max_rows));
        NL_ASSIGN(pool_, allocate_device(pool_bytes(), "the page pool"));
        NL_ASSIGN(weights_, upload_weights<T>(spec_, weights, stream_.get()));
        for (size_t i = 0; i < spec_.ropes.size(); ++i) {
            NL_TRY(fill_rope_table(weights_.frequencies[i], weights_.magnitudes[i], spec_.head_dim / 2,
                                   spec_.max_context, rope_table(static_cast<int32_t>(i)), stream_.get()));
        }
        NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
        return {};
    }

    Result<void> run(const Batch& batch, const Forward& forward, std::span<int32_t> sampled) override {
        NL_TRY(check_batch(spec_, options_, batch, sampled));
        if (batch.tokens.empty()) return {};
        return on_device([&]() -> Result<void> {
            const AttentionInput input{batch.page_table, batch.segments, batch.sequences, batch.positions};
            std::vector<const AttentionPlan*> plans;
            for (AttentionPlanner& planner : planners_) plans.push_back(&planner.plan(input));
            bool moved = false;
            NL_TRY(batch_.pack(batch, plans, &moved));
            if (moved) graphs_.clear();
            NL_TRY(batch_.upload(stream_.get()));
            const Result<void> submitted = submit(forward);
            // On an error too: what was begun must have ended before the batch's memory is used again.
            NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
            if (!submitted.ok()) return submitted;
            std::copy_n(scratch_.sampled_host.template as<int32_t>(), sampled.size(), sampled.begin());
            num_logits_ = static_cast<int32_t>(sampled.size());
            return {};
        });
    }

    Result<void> read_logits(int32_t index, std::span<float> logits) override {
        if (index < 0 || index >= num_logits_) {
            return fail(NL_ERROR_INTERNAL, "index is ", index, ", expected less than ", num_logits_,
                        ", the output rows of the latest run");
        }
        if (logits.size() != static_cast<size_t>(spec_.vocab_size)) {
            return fail(NL_ERROR_INTERNAL, "logits has ", logits.size(), " elements, expected vocab_size, ",
                        spec_.vocab_size);
        }
        return on_device([&]() -> Result<void> {
            const float* const from =
                scratch_.kept_logits.template as<float>() + static_cast<int64_t>(index) * spec_.vocab_size;
            NL_CUDA_TRY(
                cudaMemcpyAsync(logits.data(), from, logits.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()));
            NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
            return {};
        });
    }

    Result<void> copy_page(int32_t from, int32_t to) override {
        for (const int32_t page : {from, to}) {
            if (page < 0 || page >= options_.num_pages) {
                return fail(NL_ERROR_INTERNAL, "page is ", page, ", expected less than num_pages, ",
                            options_.num_pages);
            }
        }
        if (from == to) return {};
        return on_device([&]() -> Result<void> {
            const int64_t elements = heads_.page_elements();
            for (int32_t layer = 0; layer < spec_.num_layers; ++layer) {
                NL_CUDA_TRY(cudaMemcpyAsync(pages(layer) + to * elements, pages(layer) + from * elements,
                                            static_cast<size_t>(elements) * sizeof(T), cudaMemcpyDeviceToDevice,
                                            stream_.get()));
            }
            NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
            return {};
        });
    }

    // ---- The operations: matrix-vector kernels with everything fused for few rows, cuBLASLt for many ----------

    Result<void> embed() override {
        return cuda::embed(weights_.embedding, view().tokens, spec_.embedding_scale, rows(), spec_.hidden_size,
                           residual(), stream_.get());
    }

    Result<void> attention_input(int32_t layer) override {
        const DeviceLayer<T>& weights = weights_.layers[static_cast<size_t>(layer)];
        T* const qkv = scratch_.qkv.template as<T>();
        if (is_few(rows())) {
            NL_TRY(matvec_normed(normed_rows(weights.attention_norm), weights.qkv, heads_.qkv_size(), qkv,
                                 multiprocessors_, stream_.get()));
        } else {
            NL_TRY(normalise(weights.attention_norm));
            NL_TRY(multiply(rows(), normed(), spec_.hidden_size, weights.qkv, heads_.qkv_size(), qkv));
        }
        AppendArguments<T> append;
        append.qkv = qkv;
        append.bias = weights.qkv_bias;
        append.q_norm = norm(weights.q_norm);
        append.k_norm = norm(weights.k_norm);
        append.frequencies = weights_.frequencies[static_cast<size_t>(layer_spec(layer).rope)];
        append.magnitudes = weights_.magnitudes[static_cast<size_t>(layer_spec(layer).rope)];
        append.key_positions = view().key_positions;
        append.slots = view().slots;
        append.pages = pages(layer);
        return append_to_pages(append, heads_, rows(), stream_.get());
    }

    Result<void> attention(int32_t layer) override {
        const LayerSpec& layer_is = layer_spec(layer);
        const auto plan = static_cast<size_t>(std::ranges::find(windows_, layer_is.window) - windows_.begin());
        AttentionArguments<T> arguments;
        arguments.queries = scratch_.qkv.template as<T>();
        arguments.query_layout = {heads_.qkv_size(), heads_.head_dim};
        arguments.pages = pages(layer);
        arguments.rope = rope_table(layer_is.rope);
        arguments.work = view().work[plan];
        arguments.units = row_units(plan_shape_);
        arguments.partial = partials_.view();
        arguments.output = attended();
        arguments.output_layout = {int64_t{heads_.num_heads} * heads_.head_dim, heads_.head_dim};
        arguments.scale = spec_.attention_scale;
        arguments.softcap = spec_.attention_softcap;
        arguments.window = layer_is.window;
        return attend(arguments, heads_, launch_of(batch_.shape().work[plan], plan_shape_), stream_.get());
    }

    Result<void> attention_output(int32_t layer) override {
        const DeviceLayer<T>& weights = weights_.layers[static_cast<size_t>(layer)];
        const int size = heads_.num_heads * heads_.head_dim;
        return add_output(attended(), size, weights.o, weights.o_bias, weights.attention_post_norm);
    }

    Result<void> mlp_input(int32_t layer) override {
        const DeviceLayer<T>& weights = weights_.layers[static_cast<size_t>(layer)];
        if (weights.router != nullptr) {
            NL_TRY(normalise(weights.mlp_norm));
            NL_TRY(
                multiply(rows(), normed(), spec_.hidden_size, weights.router, spec_.experts.count, experts_.logits()));
            return experts_.choose(rows(), stream_.get());
        }
        if (is_few(rows()) && weights.gate_up_bias == nullptr) {
            return matvec_gate_up(normed_rows(weights.mlp_norm), weights.gate_up, spec_.activation,
                                  spec_.intermediate_size, inner(), stream_.get());
        }
        T* const gate_up = scratch_.gate_up.template as<T>();
        NL_TRY(normalise(weights.mlp_norm));
        NL_TRY(multiply(rows(), normed(), spec_.hidden_size, weights.gate_up, 2 * spec_.intermediate_size, gate_up));
        return gate(gate_up, weights.gate_up_bias, spec_.activation, rows(), spec_.intermediate_size, inner(),
                    stream_.get());
    }

    Result<void> mlp_output(int32_t layer) override {
        const DeviceLayer<T>& weights = weights_.layers[static_cast<size_t>(layer)];
        if (weights.router != nullptr) {
            const ExpertLayer<T> experts{weights.expert_gate_up, weights.expert_down};
            return experts_.add(normed(), experts, rows(), residual(), stream_.get());
        }
        return add_output(inner(), spec_.intermediate_size, weights.down, weights.down_bias, weights.mlp_post_norm);
    }

    Result<void> head() override {
        const int outputs = batch_.shape().output_rows;
        if (outputs == 0) return {};
        if (is_few(outputs)) {
            NormedRows<T> x = normed_rows(weights_.final_norm);
            x.row_index = view().output_rows;
            x.rows = outputs;
            NL_TRY(matvec_normed(x, weights_.head, spec_.vocab_size, all_logits(), multiprocessors_, stream_.get()));
        } else {
            NL_TRY(rms_norm(residual(), view().output_rows, norm(weights_.final_norm), outputs, spec_.hidden_size,
                            normed(), stream_.get()));
            NL_TRY(multiply(outputs, normed(), spec_.hidden_size, weights_.head, spec_.vocab_size, all_logits()));
        }
        if (spec_.logit_softcap > 0) {
            NL_TRY(softcap(all_logits(), int64_t{outputs} * spec_.vocab_size, spec_.logit_softcap, stream_.get()));
        }
        return sample(all_logits(), view().sampling, outputs, spec_.vocab_size, sampled(), stream_.get());
    }

  private:
    static bool is_few(int rows) { return rows <= kMatvecRows; }

    [[nodiscard]] int rows() const { return batch_.shape().rows; }
    [[nodiscard]] const BatchView& view() const { return batch_.view(); }
    [[nodiscard]] float* residual() const { return scratch_.residual.template as<float>(); }
    [[nodiscard]] T* normed() const { return scratch_.normed.template as<T>(); }
    [[nodiscard]] float2* rope_table(int32_t rope) const {
        const int64_t turns = int64_t{spec_.max_context} * (spec_.head_dim / 2);
        return scratch_.rope.template as<float2>() + rope * turns;
    }
    [[nodiscard]] const LayerSpec& layer_spec(int32_t layer) const { return spec_.layers[static_cast<size_t>(layer)]; }
    [[nodiscard]] T* attended() const { return scratch_.attended.template as<T>(); }
    [[nodiscard]] T* inner() const { return scratch_.inner.template as<T>(); }
    [[nodiscard]] float* all_logits() const { return scratch_.logits.template as<float>(); }
    [[nodiscard]] int32_t* sampled() const { return scratch_.sampled.template as<int32_t>(); }
    [[nodiscard]] int64_t layer_elements() const { return heads_.page_elements() * options_.num_pages; }
    [[nodiscard]] size_t pool_bytes() const {
        return static_cast<size_t>(layer_elements()) * static_cast<size_t>(spec_.num_layers) * sizeof(T);
    }
    [[nodiscard]] T* pages(int32_t layer) const { return pool_.template as<T>() + layer * layer_elements(); }

    // Runs `work` with the device current. An error that breaks the device stays with CUDA, which gives it to every
    // later call.
    template <typename Work>
    Result<void> on_device(const Work& work) {
        const DeviceGuard guard(device_);
        NL_TRY(guard.result());
        return work();
    }

    // Puts the forward pass and the copies of its results on the stream, from a graph where there is one.
    Result<void> submit(const Forward& forward) {
        if (rows() > kMaxGraphRows) return enqueue(forward);
        GraphCache::Entry& entry = graphs_.find(batch_.shape());
        if (!entry.seen) {
            NL_TRY(enqueue(forward));
            entry.seen = true;
            return {};
        }
        if (!entry.graph) {
            NL_ASSIGN(entry.graph, record_graph(stream_.get(), [&] { return enqueue(forward); }));
        }
        NL_CUDA_TRY(cudaGraphLaunch(entry.graph.get(), stream_.get()));
        return {};
    }

    Result<void> enqueue(const Forward& forward) {
        NL_TRY(forward(*this));
        const auto outputs = static_cast<size_t>(batch_.shape().output_rows);
        if (outputs == 0) return {};
        NL_CUDA_TRY(cudaMemcpyAsync(scratch_.sampled_host.data(), sampled(), outputs * sizeof(int32_t),
                                    cudaMemcpyDeviceToHost, stream_.get()));
        // A copy, so that a run that fails leaves the logits of the one before.
        NL_CUDA_TRY(cudaMemcpyAsync(scratch_.kept_logits.data(), all_logits(),
                                    outputs * static_cast<size_t>(spec_.vocab_size) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, stream_.get()));
        return {};
    }

    Norm norm(const float* weight) const { return {weight, spec_.norm_epsilon}; }

    NormedRows<T> normed_rows(const float* norm_weight) const {
        return {residual(), norm(norm_weight), nullptr, rows(), spec_.hidden_size};
    }

    Result<void> normalise(const float* norm_weight) {
        return rms_norm(residual(), nullptr, norm(norm_weight), rows(), spec_.hidden_size, normed(), stream_.get());
    }

    // y = x W^T.
    template <typename Output>
    Result<void> multiply(int num_rows, const T* x, int size, const T* weight, int outputs, Output* y) {
        if (!is_few(num_rows)) {
            const MatmulShape shape{num_rows, size, outputs, kDTypeOf<T>, kDTypeOf<Output>, false};
            NL_ASSIGN(const bool done, matmul_->multiply(shape, x, weight, y, stream_.get()));
            if (done) return {};
        }
        return in_few_rows(num_rows, [&](int64_t first, int count) {
            return matvec(x + first * size, weight, count, size, outputs, y + first * outputs, stream_.get());
        });
    }

    // Calls `product` for a few rows at a time: what is left where cuBLASLt has no algorithm.
    template <typename Product>
    static Result<void> in_few_rows(int num_rows, const Product& product) {
        for (int first = 0; first < num_rows; first += kMatvecRows) {
            NL_TRY(product(int64_t{first}, std::min(kMatvecRows, num_rows - first)));
        }
        return {};
    }

    // residual += x W^T.
    Result<void> add_product(const T* x, int size, const T* weight) {
        const int hidden = spec_.hidden_size;
        if (!is_few(rows())) {
            const MatmulShape shape{rows(), size, hidden, kDTypeOf<T>, DType::f32, true};
            NL_ASSIGN(const bool done, matmul_->multiply(shape, x, weight, residual(), stream_.get()));
            if (done) return {};
        }
        return in_few_rows(rows(), [&](int64_t first, int count) {
            return matvec_add(x + first * size, weight, count, size, hidden, residual() + first * hidden,
                              multiprocessors_, stream_.get());
        });
    }

    // residual += norm(x W^T + bias), without the bias and the norm where they are null.
    Result<void> add_output(const T* x, int size, const T* weight, const T* bias, const float* post_norm) {
        if (bias == nullptr && post_norm == nullptr) return add_product(x, size, weight);
        float* const added = scratch_.added.template as<float>();
        NL_TRY(multiply(rows(), x, size, weight, spec_.hidden_size, added));
        return add_normed(added, bias, norm(post_norm), rows(), spec_.hidden_size, residual(), stream_.get());
    }

    // Frees everything on the device while it is current.
    void release() {
        graphs_.clear();
        batch_ = DeviceBatch();
        weights_ = DeviceWeights<T>();
        pool_ = DeviceBuffer();
        scratch_ = Scratch();
        partials_ = Partials();
        experts_ = Experts<T>();
        matmul_.reset();
        stream_.reset();
    }

    const int device_;
    const int multiprocessors_;
    const ModelSpec spec_;
    const ExecutorOptions options_;
    const HeadShape heads_;
    Stream stream_;
    std::unique_ptr<Matmul> matmul_;
    Scratch scratch_;
    DeviceBuffer pool_;  // [num_layers][num_pages, 2, num_kv_heads, page_size, head_dim]
    DeviceWeights<T> weights_;
    const std::vector<int32_t> windows_;      // of the model's layers
    const PlanShape plan_shape_;              // whatever the window
    std::vector<AttentionPlanner> planners_;  // for each of windows_
    Partials partials_;
    Experts<T> experts_;
    DeviceBatch batch_;
    GraphCache graphs_;
    int32_t num_logits_ = 0;  // rows of logits that are there
};

template <typename T>
Result<std::unique_ptr<Executor>> create_typed(int index, const GpuFacts& gpu, const ModelSpec& spec,
                                               const ModelWeights& weights, const ExecutorOptions& options) {
    auto executor = std::make_unique<CudaExecutor<T>>(index, gpu, spec, options);
    NL_TRY(executor->initialise(weights));
    return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace

Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& options) {
    NL_TRY(check_model(spec, weights, options));
    if (spec.head_dim > kMaxHeadDim || spec.head_dim % 8 != 0) {
        return fail(NL_ERROR_UNSUPPORTED, "head_dim is ", spec.head_dim,
                    ", the CUDA backend takes multiples of 8 up to ", kMaxHeadDim);
    }
    const DeviceGuard guard(index);
    NL_TRY(guard.result());
    GpuFacts gpu;
    NL_CUDA_TRY(cudaDeviceGetAttribute(&gpu.multiprocessors, cudaDevAttrMultiProcessorCount, index));
    NL_CUDA_TRY(cudaDeviceGetAttribute(&gpu.major, cudaDevAttrComputeCapabilityMajor, index));
    switch (options.dtype) {
        case DType::f16:
            return create_typed<__half>(index, gpu, spec, weights, options);
        case DType::bf16:
            return create_typed<__nv_bfloat16>(index, gpu, spec, weights, options);
        case DType::f32:
        case DType::f8_e4m3:  // of files and pages
            break;
    }
    return create_typed<float>(index, gpu, spec, weights, options);
}

}  // namespace nanolith::cuda
