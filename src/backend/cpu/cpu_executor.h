// The decoder on the CPU: submit() computes a step at once. See Executor for the contract.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/norm_rope.h"
#include "backend/cpu/products.h"
#include "backend/cpu/routing.h"
#include "backend/cpu/sampling.h"
#include "backend/cpu/weights.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"

namespace nanolith::cpu {

// T: float, or BFloat16 for weights, activations and the page pool. Whatever T is, the residual stream, queries,
// scores, sums and logits are float32, and every product and norm accumulates in float32.
template <typename T>
class CpuExecutor final : public Executor {
  public:
    // The pool outlives the executor. OUT_OF_MEMORY tells the bytes wanted and, where it is known to fall
    // short (`available` bytes), refuses before anything is allocated.
    static Result<std::unique_ptr<Executor>> create(const ModelSpec& spec, const ModelWeights& weights,
                                                    const ExecutorOptions& options, ThreadPool& pool,
                                                    uint64_t available, const Progress& progress);

    [[nodiscard]] bool uses_weights_in_place() const override { return any_in_place(weights_); }
    [[nodiscard]] int32_t max_in_flight() const override { return 1; }
    Result<void> submit(const Batch& batch) override;
    Result<void> submit_draws(const Batch& batch) override;
    Result<void> read_undrawn(int32_t output_row, std::span<float> logits) override;
    Result<void> write_undrawn(int32_t output_row, std::span<const float> logits) override;
    Result<void> collect(std::span<int32_t> sampled) override;
    Result<void> read_logits(int32_t index, std::span<float> logits) override;
    Result<void> read_state(int32_t index, std::span<float> state) override;
    Result<void> read_logprobs(std::span<TokenLogprob> logprobs) override;
    Result<void> read_surprises(std::span<float> surprises) override;
    Result<void> read_token_weights(std::span<float> weights) override;
    Result<void> copy_pages(std::span<const PageCopy> copies) override;
    Result<HostMemory> allocate_host(size_t bytes) override;
    Result<void> read_pages(std::span<const int32_t> pages, std::span<std::byte> to) override;
    Result<void> write_pages(std::span<const int32_t> pages, std::span<const std::byte> from) override;

    // The operations of forward(), which alone calls them, while a step is computed.
    Result<void> embed();
    [[nodiscard]] bool has_results() const { return nanolith::has_results(*batch_); }
    Result<void> attention_input(int32_t layer);
    Result<void> attention(int32_t layer);
    Result<void> attention_output(int32_t layer);
    Result<void> mlp_input(int32_t layer);
    Result<void> mlp_output(int32_t layer);
    Result<void> head();

  private:
    CpuExecutor(ModelSpec spec, const ExecutorOptions& options, ThreadPool& pool);

    [[nodiscard]] uint64_t bytes_wanted(const ModelWeights& weights) const;
    Result<void> allocate();
    Result<void> make_products(const Progress& progress);
    Result<void> make_products_of(const CpuLayer<T>& layer);
    template <typename Work>
    void for_rows(int64_t count, int64_t numbers, const Work& work);
    Result<void> compute(const Batch& batch);
    // The forward pass, its phases added to the profile.
    Result<void> forward_timed(const Batch& batch);
    // Calls copy(place in the pool, place among the pages outside it, bytes) for each of the pages and layers.
    template <typename Copy>
    void for_page_layers(std::span<const int32_t> pages, const Copy& copy);

    // Rows of the residual stream: the batch's, and behind the last layer's attention those that head() reads.
    [[nodiscard]] int64_t rows() const { return rows_; }
    void keep_result_rows();
    [[nodiscard]] int64_t qkv_width() const {
        return int64_t{spec_.num_heads + 2 * spec_.num_kv_heads} * spec_.head_dim;
    }
    [[nodiscard]] int64_t query_width() const { return int64_t{spec_.num_heads} * spec_.head_dim; }
    // Of an MLP's or an expert's inside.
    [[nodiscard]] int64_t inner_width() const {
        return std::max(spec_.intermediate_size, spec_.experts.intermediate_size);
    }
    [[nodiscard]] int64_t wide_width() const {
        return std::max({qkv_width(), 2 * inner_width(), int64_t{spec_.experts.count}});
    }
    [[nodiscard]] int64_t most_product_rows() const { return std::max(options_.max_rows, options_.max_output_rows); }
    [[nodiscard]] int64_t most_product_depth() const {
        return std::max({int64_t{spec_.hidden_size}, inner_width(), query_width()});
    }
    [[nodiscard]] const RotationTable& turns_of(int32_t layer) const { return turns_[spec_.layers[layer].rope]; }
    [[nodiscard]] Pages<void> pages(int32_t layer) { return {pools_[layer].data()}; }
    void normalize_rows(const std::vector<float>& weight);
    template <typename Out>
    void finish_rows(std::span<const int32_t> batch_rows, Out* to);
    Result<void> compute_logits();
    [[nodiscard]] Result<float*> undrawn_logits(int32_t output_row, size_t num_logits);
    Result<void> draw();
    Result<void> answer_logprobs();
    void probe(const AttentionRule& rule, const AttentionTensors& tensors);
    void finish_qkv_row(int32_t index, int64_t row);
    Result<void> add_product(const Matrix<T>& w, T* x, const std::vector<float>& bias,
                             const std::vector<float>& post_norm);
    Result<void> gate(const CpuMlp<T>& mlp, T* x, int64_t count);
    Result<void> add_expert(const CpuMlp<T>& expert, std::span<const Route> routes);

    ModelSpec spec_;
    ExecutorOptions options_;
    ThreadPool& pool_;
    CpuWeights<T> weights_;
    MatrixBytes matrices_;                  // for the profile, where there is one
    std::vector<Buffer<std::byte>> pools_;  // of each layer, as attention_.shape().pool says
    Products<T> products_;
    std::vector<RotationTable> turns_;  // one for each of spec_.ropes
    Attention attention_;
    Routing routing_;  // of the layer that is computed

    // Scratch. Rows are padded as padded_rows() asks.
    Buffer<float> residual_;                     // [rows, hidden]
    Buffer<T> normalized_;                       // [rows, hidden]
    Buffer<float> wide_;                         // [rows, qkv_width] and then [rows, 2 * inner_width]
    Buffer<T> attended_;                         // [rows, num_heads * head_dim]
    Buffer<T> gated_;                            // [rows, inner_width]
    Buffer<T> gathered_;                         // [rows, hidden], of one expert
    Buffer<float> added_;                        // [rows, hidden]
    Buffer<T> output_rows_;                      // [output rows, hidden]
    Buffer<float> logits_;                       // [output rows, vocab] of the step computed last
    std::vector<SampleScratch> sample_scratch_;  // one for each thread

    std::vector<double> token_weights_;   // of the step computed last: of each probe, of each token
    const Batch* batch_ = nullptr;        // while it is computed
    std::vector<int32_t> tokens_;         // its tokens, those drawn before filled in
    int64_t rows_ = 0;                    // of the residual stream
    std::vector<int32_t> result_rows_;    // its output rows and state rows, ascending, each once
    bool in_flight_ = false;              // a step is computed and not collected
    bool undrawn_ = false;                // a step is computed but for its draws
    std::vector<int32_t> draws_;          // of the latest step that was computed, collected or not
    std::vector<int32_t> drawing_;        // of the one that is computed
    std::vector<float> surprises_;        // of the step computed last
    std::vector<TokenLogprob> logprobs_;  // of the step computed last
    std::vector<float> states_;           // [state_rows, hidden] of the step computed last
    std::vector<int32_t> keeping_;        // its kept_logits
    std::vector<int32_t> kept_;           // the step's that was collected last
    Buffer<float> kept_logits_;           // [max_kept_logits, vocab] of these, allocated when first wanted
};

extern template class CpuExecutor<float>;
extern template class CpuExecutor<BFloat16>;

}  // namespace nanolith::cpu
