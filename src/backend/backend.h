// The one interface that a device implements. Everything above it (engine, cache, model) is device-free;
// everything below it (src/backend/cpu, cuda) knows this header and src/base alone.
//
// A Backend is a device. It makes an Executor for one model: the weights, the page pool and the scratch
// memory on that device. An executor takes steps (a Batch each), computes the decoder over them in the order
// of operations that forward.h has for all devices, and gives the drawn tokens later. Nothing here is
// thread-safe: one scheduler thread drives an executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace nanolith {

enum class DType : uint8_t {
    f32,
    f16,
    bf16,
    f8_e4m3  // of weights in files, and of key-value pages
};

constexpr size_t dtype_bytes(DType dtype) {
    return dtype == DType::f32 ? 4 : dtype == DType::f8_e4m3 ? 1 : 2;
}
constexpr const char* dtype_name(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "float32";
        case DType::f16:
            return "float16";
        case DType::bf16:
            return "bfloat16";
        case DType::f8_e4m3:
            break;
    }
    return "float8_e4m3";
}

// Factors of a weight's blocks: element (r, c) counts
// factor[(first_row + r) / block_rows * row_stride + c / block_cols] times. Not there: data is null.
struct WeightScales {
    DType dtype = DType::f32;
    int64_t block_rows = 1;
    int64_t block_cols = 1;
    int64_t row_stride = 1;  // factors of a row of blocks
    int64_t first_row = 0;   // where the weight begins in the matrix that has these factors
    const std::byte* data = nullptr;
};

// Where weights come from that must not be touched where they lie while they are loaded: in a file, which somebody may
// cut short. Thread-safe but for keep().
class WeightSource {
  public:
    WeightSource() = default;
    WeightSource(const WeightSource&) = delete;
    WeightSource& operator=(const WeightSource&) = delete;
    virtual ~WeightSource() = default;

    // Copies the `size` bytes at `from`, whole elements of one weight, to `to`. What is there no longer reads as zeros;
    // the source remembers that, and its owner asks when all is loaded.
    virtual void read(const std::byte* from, size_t size, void* to) noexcept = 0;
    // A copy of the bytes that lives as long as the source.
    virtual const std::byte* keep(std::span<const std::byte> bytes) = 0;
    // Whether weights may be used where they lie once they have been read.
    [[nodiscard]] virtual bool stays() const = 0;
};

// A weight in host memory, not owned: row-major [rows, cols]; a vector has rows 1. Not there: data is null.
// The data need not be aligned to its element size (files are mapped). read_weight.h reads one of any kind.
struct WeightView {
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t cols = 0;
    const std::byte* data = nullptr;
    // Outputs (rows; elements of a vector) in groups of order.size(), each in this order: output i of a group is the
    // one that lies at order[i] of it. Empty: as they lie. Not owned.
    std::span<const int32_t> order = {};
    WeightScales scales = {};
    WeightSource* source = nullptr;  // where set, the data (but for the scales) is read through it

    [[nodiscard]] bool present() const { return data != nullptr; }
    // The weight is its data, element by element.
    [[nodiscard]] bool plain() const { return order.empty() && scales.data == nullptr; }
    [[nodiscard]] size_t bytes() const {
        return static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_bytes(dtype);
    }
};

// Rotary position embedding (Su et al., RoFormer), scaling included: pair i (elements i and i + head_dim/2) of a head
// turns by position * frequencies[i] and is multiplied by magnitudes[i]. A frequency of 0 leaves a pair as it is.
struct RopeSpec {
    std::vector<float> frequencies;  // [head_dim / 2]
    std::vector<float> magnitudes;   // [head_dim / 2], or empty: all 1
};

// What tells a layer's attention from another's.
struct LayerSpec {
    int32_t rope = 0;    // of ModelSpec::ropes
    int32_t window = 0;  // a query at position p sees those above p - window; 0: all
};

enum class Activation : uint8_t {
    silu,      // x / (1 + e^-x)
    gelu_tanh  // Hendrycks and Gimpel, Gaussian Error Linear Units, with tanh
};

// A mixture of experts in place of a layer's MLP (Shazeer et al., Outrageously Large Neural Networks): for each row
// the `top_k` experts with the highest softmax of the router's logits, added up by that share.
struct ExpertSpec {
    int32_t count = 0;  // 0: no layer has experts
    int32_t top_k = 0;
    int32_t intermediate_size = 0;
    bool normalized = false;  // the shares of the chosen are made to add up to 1
};

// A decoder-only transformer as numbers. Which optional parts a layer has (bias, QK-norm, norms of what it adds,
// experts) is told by which of its weights are present.
struct ModelSpec {
    int32_t num_layers = 0;
    int32_t hidden_size = 0;
    int32_t intermediate_size = 0;  // of layers without experts
    int32_t num_heads = 0;          // query heads; a multiple of num_kv_heads
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;  // even
    int32_t vocab_size = 0;
    int32_t max_context = 0;  // positions are below this
    float norm_epsilon = 1e-6F;
    float norm_offset = 0;        // norms multiply by their weight plus this
    float attention_scale = 0;    // scores are q.k times this
    float attention_softcap = 0;  // and become cap * tanh(score / cap); 0: they stay
    float logit_softcap = 0;      // the same of logits
    float embedding_scale = 1;    // embeddings are multiplied by this
    Activation activation = Activation::silu;
    ExpertSpec experts;
    std::vector<RopeSpec> ropes;
    std::vector<LayerSpec> layers;  // [num_layers]
};

// gate, up [intermediate, hidden] and down [hidden, intermediate] of one expert.
struct ExpertWeights {
    WeightView gate_proj, up_proj, down_proj;
};

// Projections are [out, in] as checkpoints store them: y = W x. All layers have the same optional parts but for
// experts, which stand in place of gate_proj, up_proj and down_proj.
struct LayerWeights {
    WeightView attention_norm;          // [1, hidden]
    WeightView q_proj, k_proj, v_proj;  // [heads * head_dim, hidden]
    WeightView q_bias, k_bias, v_bias;  // optional, [1, heads * head_dim]
    WeightView q_norm, k_norm;          // optional, [1, head_dim]: RMSNorm of each head before RoPE
    WeightView o_proj;                  // [hidden, num_heads * head_dim]
    WeightView o_bias;                  // optional, [1, hidden]
    WeightView attention_post_norm;     // optional, [1, hidden]: RMSNorm of what attention adds to the residual stream
    WeightView mlp_norm;                // [1, hidden]
    WeightView gate_proj, up_proj;      // [intermediate, hidden]
    WeightView down_proj;               // [hidden, intermediate]
    WeightView gate_bias, up_bias;      // optional, [1, intermediate]
    WeightView down_bias;               // optional, [1, hidden]
    WeightView mlp_post_norm;           // optional, [1, hidden]: RMSNorm of what the MLP adds
    WeightView router;                  // [experts, hidden] where the layer has experts
    std::vector<ExpertWeights> experts;
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

// In place of a token: the logits have a NaN, or none above minus infinity.
constexpr int32_t kNoToken = -1;

// Stands for a token in Batch::tokens: the one that output row `output_row` of the step submitted just before draws.
// So a step can be submitted while the one before still runs.
constexpr int32_t drawn_by(int32_t output_row) {
    return -1 - output_row;
}

// Entries [first, first + count) of the page table.
struct TableRange {
    int32_t first = 0;
    int32_t count = 0;
};

struct PageCopy {
    int32_t from = 0;
    int32_t to = 0;
};

// What one step computes. The page table is resident: it is the caller's one table, which lives from step to step, and
// only `changed_entries` differ from what it held at the step before. An executor on another device keeps a copy.
struct Batch {
    std::vector<int32_t> tokens;         // [rows] an id, or drawn_by()
    std::vector<int32_t> positions;      // [rows] position in the context
    std::vector<int32_t> key_positions;  // [rows] position that the row's key is rotated for: counted from its segment
    std::vector<int32_t> slots;          // [rows] page * page_size + offset that its key and value go to, or kNoSlot:
                                         // write nothing (the key is in the cache already)
    std::span<const int32_t> page_table;
    std::vector<TableRange> changed_entries;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> output_rows;    // rows that a token is drawn after
    std::vector<SampleParams> sampling;  // [output_rows]
    std::vector<int32_t> kept_logits;    // indices of output_rows whose logits read_logits() will ask for, ascending
};

// ---- Executor -------------------------------------------------------------------------------------------

struct ExecutorOptions {
    DType dtype = DType::f32;  // weights and activations; residuals and logits are float32
    // Of the KV cache; none: dtype. f8_e4m3 keeps keys and values as they are, without scales: what is beyond 448
    // becomes 448. UNSUPPORTED where the device has no kernels for it.
    std::optional<DType> kv_dtype = std::nullopt;
    int32_t page_size = 64;
    int32_t num_pages = 0;
    int32_t max_rows = 512;         // most rows of a batch
    int32_t max_output_rows = 256;  // most output rows of a batch
    int32_t max_kept_logits = 8;    // most output rows of a batch whose logits are kept
    bool warm_up = true;            // what a first step would wait for is made ready with the executor
    // A row's logits are the same to the bit whatever rows are in its batch, and however its sequence was cut into
    // batches: every sum is made in an order that follows from the row's own position and segments.
    bool batch_invariant = false;

    [[nodiscard]] DType page_dtype() const { return kv_dtype.value_or(dtype); }
};

// Runs steps in the order of submit(). A step may be submitted while others are in flight: it sees what they write.
class Executor {
  public:
    Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    virtual ~Executor() = default;

    // Whether steps read weights where the views' data lies; else the data may go when the executor is made.
    [[nodiscard]] virtual bool uses_weights_in_place() const { return false; }
    // How many steps may be submitted and not collected yet: 1 where submit() computes, 2 where a device does.
    [[nodiscard]] virtual int32_t max_in_flight() const = 0;

    // Takes a step without waiting for its results. The batch may change when the call returns (the page table may
    // too). After an error nothing of the step is in flight, and the pages that it names as slots hold anything.
    virtual Result<void> submit(const Batch& batch) = 0;

    // Waits for the oldest step in flight: sampled has one element for each of its output rows. After an error the
    // pages that the step names as slots hold anything, and so do those of the steps behind it that build on them;
    // they are still to be collected.
    virtual Result<void> collect(std::span<int32_t> sampled) = 0;

    // The logits [vocab_size] of output row `index` of the step collected last, which is among its kept_logits.
    virtual Result<void> read_logits(int32_t index, std::span<float> logits) = 0;

    // Copies pages, K and V of every layer, one after the other: after the steps in flight, before the next one.
    virtual Result<void> copy_pages(std::span<const PageCopy> copies) = 0;
};

// ---- Backend --------------------------------------------------------------------------------------------

// Is told how much of a long work is done, from 0 to 1, on the thread that asked for the work. False ends it.
using Progress = std::function<bool(double done)>;

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

    // Copies (or maps, where the device can use them in place) the weights, reserves the pool,
    // [num_layers][num_pages, 2, num_kv_heads, page_size, head_dim], and makes ready what a first step would
    // otherwise wait for (kernels, algorithms, recorded steps). The views' memory outlives the executor where that
    // uses weights in place. CANCELLED
    // where `progress` asked for it.
    virtual Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                              const ExecutorOptions& options,
                                                              const Progress& progress) = 0;
};

// The CPU, with `num_threads` threads (0: as many as cores that the process may use), one of which is the caller's.
// `warn`, where given, is told in a sentence that the system gave fewer. One of its executors works at a time.
Result<std::unique_ptr<Backend>> open_cpu_backend(int32_t num_threads,
                                                  const std::function<void(const std::string&)>& warn = {});

// The GPU `index` through libnanolith_cuda.so, found next to this library or in NANOLITH_BACKEND_PATH (a list of
// folders). NOT_FOUND says what is missing: the library, the driver or the device.
Result<std::unique_ptr<Backend>> open_cuda_backend(int32_t index);

// What a backend library exports, as `nl_backend_open`. `version` must be the backend's own (nl_version()),
// since C++ objects cross this boundary.
using BackendOpen = void(const char* version, int32_t index, Result<std::unique_ptr<Backend>>& result);
constexpr const char* kBackendOpenName = "nl_backend_open";

}  // namespace nanolith
