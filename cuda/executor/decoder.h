// A model on the device with its page pool, and the operations of its forward pass.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/device_attention.h"
#include "backend/batch.h"
#include "backend/dtype.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/probe.h"
#include "backend/progress.h"
#include "batch/device_batch.h"
#include "embed/embed.h"
#include "executor/copy_page.h"
#include "executor/probes.h"
#include "executor/products.h"
#include "executor/scratch.h"
#include "executor/weights.h"
#include "experts/experts.h"
#include "linear/gate.h"
#include "norm/rms_norm.h"
#include "runtime/check.h"
#include "runtime/gpu_facts.h"
#include "sample/sample.h"
#include "sample/softcap.h"

namespace nanolith::cuda {

// What the attention of all layers has in common. Window and rotation differ from layer to layer (LayerKinds).
inline AttentionSpec attention_spec(const ModelSpec& spec, const ExecutorOptions& options) {
    return {.num_heads = spec.num_heads,
            .num_kv_heads = spec.num_kv_heads,
            .head_dim = spec.head_dim,
            .page_size = options.page_size,
            .dtype = options.dtype,
            .kv_dtype = options.page_dtype(),
            .scale = spec.attention_scale,
            .causal = true,
            .window = 0,
            .softcap = spec.attention_softcap,
            .rope_frequencies = {},
            .max_position = spec.max_context,
            .batch_invariant = options.batch_invariant};
}

// T is the type of weights and activations: float, __half or __nv_bfloat16. The operations attention_input() to head()
// are those of backend/forward.h. They put their launches on the stream, for the step that begin() was last called
// with, and wait for nothing.
template <typename T>
class Decoder {
  public:
    Decoder(const GpuFacts& gpu, const ModelSpec& spec, const ExecutorOptions& options)
        : gpu_(gpu),
          spec_(spec),
          options_(options),
          heads_{spec_.num_heads, spec_.num_kv_heads, spec_.head_dim, options.page_size},
          attention_(attention_spec(spec_, options), layer_kinds(spec_), step_capacity(options), gpu) {}

    // Allocates all memory and waits. All weights are zero then. `stream` outlives the decoder.
    Result<void> allocate(const ModelWeights& weights, cudaStream_t stream) {
        stream_ = stream;
        NL_ASSIGN(scratch_, allocate_scratch(spec_, heads_, options_));
        NL_TRY(attention_.allocate(stream_));
        NL_ASSIGN(pool_, allocate_device(static_cast<size_t>(layer_bytes() * spec_.num_layers), "the page pool"));
        NL_ASSIGN(weights_, allocate_weights<T>(spec_, weights, options_.weights, stream_));
        NL_ASSIGN(experts_, create_experts());
        NL_ASSIGN(products_, Products<T>::create(gpu_, options_, weights_, stream_));
        NL_CUDA_TRY(cudaStreamSynchronize(stream_));
        return {};
    }

    // Uploads the weights and waits. Reports `progress` from 0 to `share`. Another thread may run steps meanwhile,
    // whose results are wrong, since they read weights that have not arrived yet.
    Result<void> upload(const ModelWeights& weights, const Progress& progress, double share) const {
        return upload_weights(spec_, weights, options_.weights, weights_, progress, share);
    }

    // The attention plans of a step, which are sent to the device with its batch; valid until the next call.
    std::span<const AttentionPlan* const> plan(const AttentionStep& step, const WrittenRows& written) {
        return attention_.plan(step, written);
    }

    // Begins a step: puts the copy of its batch to the device and the embeddings of its tokens on the stream. `batch`
    // must live until the last operation of the step has been called.
    Result<void> begin(const DeviceBatch& batch, int32_t* page_table) {
        shape_ = &batch.shape();
        view_ = &batch.view();
        page_table_ = page_table;
        return begin_step(weights_.embedding, batch.host(), sampled(), page_table_, spec_.embedding_scale, rows(),
                          residual(), stream_);
    }

    // Has the step that begins next probed, until the next call; null: it has no probes.
    void set_probes(const Probes* probes) { probes_ = probes; }

    // [output rows, vocab] on the device, of the step whose head() the stream ran last.
    [[nodiscard]] float* logits() const { return all_logits(); }

    // Fills a page of every layer with zeros.
    Result<void> clear_page(int32_t page) {
        for (int32_t layer = 0; layer < spec_.num_layers; ++layer) {
            NL_CUDA_TRY(cudaMemsetAsync(layer_pages(layer) + page * page_bytes(), 0, static_cast<size_t>(page_bytes()),
                                        stream_));
        }
        return {};
    }

    Result<void> copy_page(const PageCopy& copy) { return cuda::copy_page(page_pool(), copy.from, copy.to, stream_); }
    [[nodiscard]] PagePool page_pool() const { return {pool_.data(), page_bytes(), layer_bytes(), spec_.num_layers}; }

    [[nodiscard]] bool has_results() const { return shape_->has_results; }

    Result<void> attention_input(int32_t layer) {
        const DeviceLayer<T>& weights = weights_.layers[layer];
        T* const qkv = scratch_.qkv.template as<T>();
        if (products_.takes_fused(rows(), weights.qkv)) {
            const bool after_streamed = layer > 0 && ends_streamed(weights_.layers[layer - 1]);
            NL_TRY(products_.multiply_normed(normed_rows(weights.attention_norm), weights.qkv, qkv, after_streamed));
        } else {
            NL_TRY(normalise(weights.attention_norm, layer > 0 && early()));
            NL_TRY(products_.multiply(rows(), normed(), weights.qkv, qkv, After::norm));
        }
        if (DeviceAttention::appends(work_counts(layer))) return {};  // attention() does it
        return attention_.append(append_call(layer), stream_);
    }

    Result<void> attention(int32_t layer) {
        const LayerSpec& layer_is = layer_spec(layer);
        const size_t plan = attention_.plan_of(layer_is.window);
        AttentionCall call;
        call.rope = layer_is.rope;
        call.window = layer_is.window;
        call.work = view_->work[plan];
        call.work.page_table = page_table_;
        call.short_work = view_->short_work[plan];
        call.counts = shape_->work[plan];
        call.queries = {scratch_.qkv.data(), heads_.qkv_size(), heads_.head_dim};
        call.pages = {layer_pages(layer)};
        call.output = {attended(), int64_t{heads_.num_heads} * heads_.head_dim, heads_.head_dim};
        call.early = early();
        if (DeviceAttention::appends(call.counts)) return attention_.append_and_run(append_call(layer), call, stream_);
        NL_TRY(attention_.run(call, stream_));
        return probes_ != nullptr && is_probed(spec_, layer) ? probe(call, layer) : Result<void>();
    }

    Result<void> attention_output(int32_t layer) {
        const DeviceLayer<T>& weights = weights_.layers[layer];
        return add_output(attended(), weights.o, weights.o_bias, weights.attention_post_norm,
                          attention_.lets_next_begin(work_counts(layer), rows()) ? After::attention : After::other);
    }

    Result<void> mlp_input(int32_t layer) {
        const DeviceLayer<T>& weights = weights_.layers[layer];
        if (weights.router.present()) {
            if constexpr (kMayStream) {
                if (streams_experts(weights)) return stream_router(weights);
            }
            NL_TRY(normalise(weights.mlp_norm, early()));
            NL_TRY(products_.multiply(rows(), normed(), weights.router, experts_.logits(), After::norm));
            return experts_.choose(rows(), stream_);
        }
        if (fuses_gate(weights)) {
            return products_.multiply_gate_up(normed_rows(weights.mlp_norm), weights.gate_up, spec_.activation, inner(),
                                              adds_streamed(weights.o, weights.o_bias, weights.attention_post_norm));
        }
        NL_TRY(normalise(weights.mlp_norm, early()));
        if (gates(weights)) {
            return products_.multiply_gated(rows(), normed(), weights.gate_up, spec_.activation, inner());
        }
        T* const gate_up = scratch_.gate_up.template as<T>();
        NL_TRY(products_.multiply(rows(), normed(), weights.gate_up, gate_up, After::norm));
        return gate(gate_up, weights.gate_up_bias, spec_.activation, rows(), spec_.intermediate_size, inner(), early(),
                    stream_);
    }

    Result<void> mlp_output(int32_t layer) {
        const DeviceLayer<T>& weights = weights_.layers[layer];
        if (weights.router.present()) {
            if constexpr (kMayStream) {
                if (streams_experts(weights))
                    return experts_.stream_out(weights.experts, rows(), residual(), after_streamed());
            }
            return experts_.add(normed(), weights.experts, rows(), residual(), stream_);
        }
        const bool streamed = (fuses_gate(weights) || gates(weights)) && products_.streams(rows(), weights.gate_up);
        return add_output(inner(), weights.down, weights.down_bias, weights.mlp_post_norm,
                          streamed ? After::streamed : After::other);
    }

    Result<void> head() {
        const int outputs = shape_->output_rows;
        if (outputs == 0) return {};
        if (products_.takes_fused(outputs, weights_.head)) {
            NormedRows<T> x = normed_rows(weights_.final_norm);
            x.row_index = view_->output_rows;
            x.rows = outputs;
            // Only launches of as many rows leave it a share of each multiprocessor.
            const bool after_streamed = outputs == rows() && ends_streamed(weights_.layers.back());
            NL_TRY(products_.multiply_normed(x, weights_.head, all_logits(), after_streamed));
        } else {
            NL_TRY(rms_norm(residual(), view_->output_rows, norm(weights_.final_norm), outputs, spec_.hidden_size,
                            normed(), early(), stream_));
            NL_TRY(products_.multiply(outputs, normed(), weights_.head, all_logits(), After::norm));
        }
        if (spec_.logit_softcap > 0) {
            NL_TRY(softcap(all_logits(), int64_t{outputs} * spec_.vocab_size, spec_.logit_softcap, stream_));
        }
        return shape_->draws_late ? Result<void>() : draw(view_->sampling, &view_->head->draw, early());
    }

    // Draws the step's tokens, the last thing that it does: head() does it, unless BatchShape::draws_late. Both
    // addresses are on the device.
    Result<void> draw(const SampleParams* sampling, const DrawTables* tables, bool early_launch) {
        return sample(all_logits(), sampling, shape_->output_rows, spec_.vocab_size, sampled(), tables, early_launch,
                      stream_);
    }

    // Writes the hidden states of the step's `count` state rows to `to`, [count, hidden], after head(). Few steps have
    // any, and how many differs from step to step: no graph has this launch.
    Result<void> write_states(int count, float* to) {
        return rms_norm(residual(), view_->state_rows, norm(weights_.final_norm), count, spec_.hidden_size, to, false,
                        stream_);
    }

  private:
    static constexpr bool kMayStream = sizeof(T) == 2;

    [[nodiscard]] Result<Experts<T>> create_experts() const {
        std::vector<ExpertMatrix<T>> matrices;
        for (const DeviceLayer<T>& layer : weights_.layers) {
            if (!layer.router.present()) continue;
            matrices.push_back(layer.experts.gate_up);
            matrices.push_back(layer.experts.down);
        }
        return Experts<T>::create(spec_, options_, gpu_, matrices);
    }

    // Whether the layer, which has experts, and its router are streamed products.
    [[nodiscard]] bool streams_experts(const DeviceLayer<T>& layer) const {
        return products_.streams(rows(), layer.router) &&
               experts_.streams(rows(), layer.experts, products_.halves(rows()));
    }
    // Whether norm and activation are fused into the layer's gate and up projections.
    [[nodiscard]] bool fuses_gate(const DeviceLayer<T>& layer) const {
        return layer.gate_up_bias == nullptr && products_.takes_fused(rows(), layer.gate_up) &&
               (!layer.gate_up.compact() || layer.gate_up.gated());
    }
    // Whether the activation is fused into a product of the layer's gate and up projections with normalised rows.
    [[nodiscard]] bool gates(const DeviceLayer<T>& layer) const {
        return layer.gate_up_bias == nullptr && products_.takes_gated(rows(), layer.gate_up);
    }
    // Whether add_output() is one streamed product.
    [[nodiscard]] bool adds_streamed(const DeviceMatrix<T>& matrix, const T* bias, const float* post_norm) const {
        return bias == nullptr && post_norm == nullptr && products_.streams(rows(), matrix);
    }
    // Whether the last launch of such a layer is a streamed product.
    [[nodiscard]] bool ends_streamed(const DeviceLayer<T>& layer) const {
        if (layer.router.present()) return streams_experts(layer);
        return adds_streamed(layer.down, layer.down_bias, layer.mlp_post_norm);
    }
    // How this step's streamed products are launched behind one another.
    [[nodiscard]] StreamedLaunch after_streamed() const { return products_.streamed_launch(rows(), After::streamed); }

    // Whether this step's launches between products (norms, append, attention, gate, sampling) may be early ones: they
    // begin while the launch before them still runs, or, behind a product of cuBLASLt, as soon as its last block ends.
    // Products of cuBLASLt are never early: the GPU would put most of their blocks on the multiprocessors that become
    // free first. When streamed products are, `After` says. The first launch of layer 0, a norm or a product with a
    // fused norm, is not early: it waits until the batch is on the device, so that all launches behind it may read the
    // batch before their own wait.
    [[nodiscard]] bool early() const { return gpu_.has_early_launches(); }

    // What the layer's attention is launched for in this step.
    [[nodiscard]] const WorkCounts& work_counts(int32_t layer) const {
        return shape_->work[attention_.plan_of(layer_spec(layer).window)];
    }

    // The queries lie as attention() read them.
    Result<void> probe(const AttentionCall& call, int32_t layer) {
        for (const ProbeShape& shape : probes_->shapes()) {
            ProbeCall probe;
            probe.rope = call.rope;
            probe.queries = call.queries;
            probe.pages = {layer_pages(layer)};
            probe.probed = probes_->pages() + shape.first_page;
            probe.num_pages = shape.num_pages;
            probe.num_tokens = shape.num_tokens;
            probe.first_row = shape.first_row;
            probe.num_rows = shape.num_rows;
            probe.first_position = shape.first_position;
            probe.lse = probes_->lse();
            probe.totals = probes_->totals();
            probe.shares = probes_->shares();
            probe.weights = probes_->weights() + shape.first_token;
            NL_TRY(attention_.probe(probe, stream_));
        }
        return {};
    }

    [[nodiscard]] AppendCall append_call(int32_t layer) const {
        const DeviceLayer<T>& weights = weights_.layers[layer];
        T* const qkv = scratch_.qkv.template as<T>();
        const int64_t row = heads_.qkv_size();
        const int64_t dim = heads_.head_dim;
        AppendCall append;
        append.rope = layer_spec(layer).rope;
        append.rows = rows();
        append.slots = view_->slots;
        append.key_positions = view_->key_positions;
        append.queries = {qkv, row, dim};
        append.keys = {qkv + heads_.num_heads * dim, row, dim};
        append.values = {qkv + (heads_.num_heads + heads_.num_kv_heads) * dim, row, dim};
        append.bias = weights.qkv_bias;
        append.q_norm = norm(weights.q_norm);
        append.k_norm = norm(weights.k_norm);
        append.pages = {layer_pages(layer)};
        append.early = early();
        return append;
    }

    static LayerKinds layer_kinds(const ModelSpec& spec) {
        LayerKinds kinds;
        for (const LayerSpec& layer : spec.layers) {
            if (std::ranges::find(kinds.windows, layer.window) == kinds.windows.end())
                kinds.windows.push_back(layer.window);
        }
        kinds.ropes = spec.ropes;
        return kinds;
    }

    // The most that a step may have: every row may be a sequence of its own, with any number of segments. All
    // conversations of a step, which draw a token each, may share a chunk.
    static PlanCapacity step_capacity(const ExecutorOptions& options) {
        constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
        PlanCapacity most{
            .rows = options.max_rows, .sequences = options.max_rows, .segments = kAny, .page_table = kAny};
        most.cascade_rows = std::max(most.cascade_rows, options.max_output_rows);
        return most;
    }

    [[nodiscard]] int rows() const { return shape_->rows; }
    [[nodiscard]] float* residual() const { return scratch_.residual.template as<float>(); }
    [[nodiscard]] T* normed() const { return scratch_.normed.template as<T>(); }
    [[nodiscard]] const LayerSpec& layer_spec(int32_t layer) const { return spec_.layers[layer]; }
    [[nodiscard]] T* attended() const { return scratch_.attended.template as<T>(); }
    [[nodiscard]] T* inner() const { return scratch_.inner.template as<T>(); }
    [[nodiscard]] float* all_logits() const { return scratch_.logits.template as<float>(); }
    [[nodiscard]] int32_t* sampled() const { return scratch_.sampled.template as<int32_t>(); }
    [[nodiscard]] int64_t page_bytes() const {
        return heads_.page_elements() * static_cast<int64_t>(dtype_bytes(options_.page_dtype()));
    }
    [[nodiscard]] int64_t layer_bytes() const { return page_bytes() * options_.num_pages; }
    [[nodiscard]] std::byte* layer_pages(int32_t layer) const { return pool_.data() + layer * layer_bytes(); }

    Norm norm(const float* weight) const { return {weight, spec_.norm_epsilon}; }

    NormedRows<T> normed_rows(const float* norm_weight) const {
        return {residual(), norm(norm_weight), nullptr, rows(), spec_.hidden_size};
    }

    Result<void> normalise(const float* norm_weight, bool is_early) {
        return rms_norm(residual(), nullptr, norm(norm_weight), rows(), spec_.hidden_size, normed(), is_early, stream_);
    }

    // The router's logits, the choice by them and the activations of the chosen experts, where streams_experts().
    Result<void> stream_router(const DeviceLayer<T>& weights) requires kMayStream {
        const bool streamed = adds_streamed(weights.o, weights.o_bias, weights.attention_post_norm);
        const NormedRows<T> x = normed_rows(weights.mlp_norm);
        NL_TRY(products_.multiply_normed(x, weights.router, experts_.logits(), streamed));
        return experts_.stream_in(x, weights.experts, after_streamed());
    }

    // residual += norm(x W^T + bias). A null bias or norm is left out.
    Result<void> add_output(const T* x, const DeviceMatrix<T>& matrix, const T* bias, const float* post_norm,
                            After after) {
        if (bias == nullptr && post_norm == nullptr) return products_.add(rows(), x, matrix, residual(), after);
        float* const added = scratch_.added.template as<float>();
        NL_TRY(products_.multiply(rows(), x, matrix, added, after));
        return add_normed(added, bias, norm(post_norm), rows(), spec_.hidden_size, residual(), early(), stream_);
    }

    const GpuFacts gpu_;
    const ModelSpec spec_;
    const ExecutorOptions options_;
    const HeadShape heads_;
    DeviceAttention attention_;
    cudaStream_t stream_ = nullptr;
    Scratch scratch_;
    DeviceBuffer pool_;  // [num_layers][num_pages, 2, num_kv_heads, page_size, head_dim]
    DeviceWeights<T> weights_;
    Products<T> products_;
    Experts<T> experts_;
    // Of the step that begin() was last called with.
    const BatchShape* shape_ = nullptr;
    const BatchView* view_ = nullptr;
    const Probes* probes_ = nullptr;
    int32_t* page_table_ = nullptr;
};

}  // namespace nanolith::cuda
