// The one interface that a device implements. Everything above it (engine, cache, model) is device-free;
// everything below it (src/backend/cpu, cuda) knows this header and src/base alone.
//
// A Backend is a device. It makes an Executor for one model: the weights, the page pool and the scratch
// memory on that device, and the fused operations of a decoder layer over them. Executor::run takes one
// Batch, uploads it, lets the model's forward pass call the operations in order, and returns the drawn
// tokens. Nothing here is thread-safe: one scheduler thread drives an executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace nanolith {

enum class DType : uint8_t { f32, f16, bf16 };

constexpr size_t dtype_bytes(DType dtype) {
    return dtype == DType::f32 ? 4 : 2;
}
constexpr const char* dtype_name(DType dtype) {
    return dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
}

// A weight in host memory, not owned: row-major [rows, cols]; a vector has rows 1. Not there: data is null.
// The data need not be aligned to its element size (files are mapped).
struct WeightView {
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t cols = 0;
    const std::byte* data = nullptr;

    [[nodiscard]] bool present() const { return data != nullptr; }
    [[nodiscard]] size_t bytes() const {
        return static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_bytes(dtype);
    }
};

// A decoder-only transformer as numbers. Which optional parts a layer has (bias, QK-norm) is told by which
// of its weights are present.
struct ModelSpec {
    int32_t num_layers = 0;
    int32_t hidden_size = 0;
    int32_t intermediate_size = 0;
    int32_t num_heads = 0;  // query heads; a multiple of num_kv_heads
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;  // even
    int32_t vocab_size = 0;
    int32_t max_context = 0;  // positions are below this
    float norm_epsilon = 1e-6F;
    float attention_scale = 0;  // scores are q.k times this
    // RoPE (Su et al., RoFormer), scaling included: pair i (elements i and i + head_dim/2) of a head turns by
    // position * rope_frequencies[i]. head_dim / 2 of them.
    std::vector<float> rope_frequencies;
};

// Projections are [out, in] as checkpoints store them: y = W x. All layers have the same optional parts.
struct LayerWeights {
    WeightView attention_norm;          // [1, hidden]
    WeightView q_proj, k_proj, v_proj;  // [heads * head_dim, hidden]
    WeightView q_bias, k_bias, v_bias;  // optional, [1, heads * head_dim]
    WeightView q_norm, k_norm;          // optional, [1, head_dim]: RMSNorm of each head before RoPE
    WeightView o_proj;                  // [hidden, num_heads * head_dim]
    WeightView mlp_norm;                // [1, hidden]
    WeightView gate_proj, up_proj;      // [intermediate, hidden]
    WeightView down_proj;               // [hidden, intermediate]
};

struct ModelWeights {
    WeightView embedding;   // [vocab, hidden]
    WeightView final_norm;  // [1, hidden]
    WeightView head;        // [vocab, hidden]; a tied head has the embedding's data pointer
    std::vector<LayerWeights> layers;
};

// ---- A batch --------------------------------------------------------------------------------------------

// A run of tokens in the KV cache as one sequence sees it. Its tokens lie in pages
// page_table[first_page], page_table[first_page + 1], ..., token t in page t / page_size at t % page_size.
// Keys are stored rotated for position t, counted from the segment's own beginning; `base` is where token 0
// stands in this sequence, so a query at position p is rotated by p - base for this segment. The query sees
// the tokens t < min(length, p - base + 1), which is causal inside the rows being computed and everything
// elsewhere. Sequences that share a chunk name the same first_page, each with its own base.
struct Segment {
    int32_t first_page = 0;
    int32_t length = 0;
    int32_t base = 0;
};

// Rows [first_row, first_row + num_rows) of the batch, consecutive positions of one context, and the
// segments (in order of base, the rows' own keys included) that they attend to.
struct Sequence {
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t first_segment = 0;
    int32_t num_segments = 0;
};

// How to draw a token from a row of logits; see nl_sampling_options for the meaning. Tokens are drawn by
// inverse CDF in vocabulary order: the first kept token whose running mass exceeds uniform * total mass.
struct SampleParams {
    float temperature = 0;  // 0: the highest logit, the lowest id on a tie
    int32_t top_k = 0;      // 0: all
    float top_p = 1;
    float min_p = 0;
    double uniform = 0;  // in [0, 1)
};

constexpr int32_t kNoSlot = -1;

struct Batch {
    std::vector<int32_t> tokens;         // [rows]
    std::vector<int32_t> positions;      // [rows] position in the context
    std::vector<int32_t> key_positions;  // [rows] position that the row's key is rotated for: counted from its segment
    std::vector<int32_t> slots;          // [rows] page * page_size + offset that its key and value go to, or kNoSlot:
                                         // write nothing (the key is in the cache already)
    std::vector<int32_t> page_table;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> output_rows;    // rows whose logits are wanted
    std::vector<SampleParams> sampling;  // [output_rows]
};

// ---- Executor -------------------------------------------------------------------------------------------

class Executor;
// The model's forward pass: calls the operations below in order. It is the same for every batch, so a device
// may record what it does and replay it.
using Forward = std::function<Result<void>(Executor&)>;

struct ExecutorOptions {
    DType dtype = DType::f32;  // weights, activations and the KV cache; residuals and logits are float32
    int32_t page_size = 64;
    int32_t num_pages = 0;
    int32_t max_rows = 512;         // most rows of a batch
    int32_t max_output_rows = 512;  // most output rows of a batch
    int32_t num_threads = 0;        // CPU only; 0: all cores
};

class Executor {
  public:
    Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    virtual ~Executor() = default;

    // Runs `forward` over the batch and waits. sampled has one element for each output row. On an error the
    // pages that the batch names as slots hold anything; everything else is as before.
    virtual Result<void> run(const Batch& batch, const Forward& forward, std::span<int32_t> sampled) = 0;

    // The logits [vocab_size] of output row `index` of the latest run that succeeded.
    virtual Result<void> read_logits(int32_t index, std::span<float> logits) = 0;

    // Copies one page, K and V of every layer.
    virtual Result<void> copy_page(int32_t from, int32_t to) = 0;

    // The operations, for `forward` alone. The residual stream x is [rows, hidden] float32.
    virtual Result<void> embed() = 0;  // x = embedding[tokens]
    virtual Result<void> attention_input(
        int32_t layer) = 0;                             // RMSNorm, QKV, bias, QK-norm, RoPE on keys, write to pages
    virtual Result<void> attention(int32_t layer) = 0;  // over segments, queries rotated for each
    virtual Result<void> attention_output(int32_t layer) = 0;  // x += W_o a
    virtual Result<void> mlp_input(int32_t layer) = 0;         // RMSNorm, h = silu(W_gate x) * (W_up x)
    virtual Result<void> mlp_output(int32_t layer) = 0;        // x += W_down h
    virtual Result<void> head() = 0;                           // output rows: final norm, logits, draw
};

// ---- Backend --------------------------------------------------------------------------------------------

class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    [[nodiscard]] virtual std::string device_name() const = 0;  // "cuda:0 NVIDIA H200"
    [[nodiscard]] virtual bool supports(DType dtype) const = 0;
    [[nodiscard]] virtual bool prefers_16_bit() const = 0;                // what NL_DTYPE_AUTO takes for 16-bit files
    [[nodiscard]] virtual Result<uint64_t> available_memory() const = 0;  // bytes that an executor could take now

    // Copies (or maps, where the device can use them in place) the weights and reserves the pool:
    // [num_layers][num_pages, 2, num_kv_heads, page_size, head_dim]. The views' memory outlives the executor.
    virtual Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                              const ExecutorOptions& options) = 0;
};

// The CPU, with `num_threads` threads (0: all that the process may use).
Result<std::unique_ptr<Backend>> open_cpu_backend(int32_t num_threads);

// The GPU `index` through libnanolith_cuda.so, found next to this library or in NANOLITH_BACKEND_PATH (a list of
// folders). NOT_FOUND says what is missing: the library, the driver or the device.
Result<std::unique_ptr<Backend>> open_cuda_backend(int32_t index);

// What a backend library exports, as `nl_backend_open`. `version` must be the backend's own (nl_version()),
// since C++ objects cross this boundary.
using BackendOpen = void(const char* version, int32_t index, Result<std::unique_ptr<Backend>>& result);
constexpr const char* kBackendOpenName = "nl_backend_open";

}  // namespace nanolith
