// What computes the steps of one model on one device: it holds the weights, the pages and the scratch memory there.
// It is not thread-safe: one scheduler thread drives an executor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/batch.h"
#include "backend/dtype.h"
#include "backend/host_memory.h"
#include "backend/weight_form.h"
#include "base/result.h"

namespace nanolith {

class Profile;

// What an executor computes with, and the limits that its memory is reserved for.
struct ExecutorOptions {
    DType dtype = DType::f32;                 // weights and activations; residuals and logits are float32
    WeightForm weights = WeightForm::source;  // UNSUPPORTED where the device has no kernels for it
    // The format of the KV cache; without a value: dtype. f8_e4m3 stores keys and values without scales, so that
    // magnitudes beyond 448 become 448. UNSUPPORTED where the device has no kernels for it.
    std::optional<DType> kv_dtype = std::nullopt;
    int32_t page_size = 64;
    int32_t num_pages = 0;
    int32_t max_rows = 512;         // most rows of a batch
    int32_t max_output_rows = 256;  // most output rows of a batch
    int32_t max_kept_logits = 8;    // most output rows of a batch whose logits are kept
    bool warm_up = true;            // prepares when it is created what the first steps would otherwise wait for
    // A row's logits are the same, to the bit, whatever other rows are in its batch and however its sequence was
    // divided into batches: the order of every sum follows from the row's own position and segments.
    bool batch_invariant = false;
    // Where set, each phase of each step is timed and added to it, one step after the other. It outlives the executor.
    Profile* profile = nullptr;

    [[nodiscard]] DType page_dtype() const { return kv_dtype.value_or(dtype); }
};

// Runs steps in the order of submit(). A step may be submitted while others are in flight: it reads the keys and values
// that they write.
class Executor {
  public:
    Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    virtual ~Executor() = default;

    // Whether steps read the weights through the views that the executor was made with. If not, the memory of these may
    // be freed when the executor is made.
    [[nodiscard]] virtual bool uses_weights_in_place() const { return false; }
    // How many steps may be submitted and not collected yet: 1 where submit() computes, 2 where a device does.
    [[nodiscard]] virtual int32_t max_in_flight() const = 0;

    // Takes a step without waiting for its results. Once the call returns, the caller may change the batch and the page
    // table. After an error nothing of the step is in flight, and the slots that it names have undefined contents.
    // Where Batch::draws_late, the step is in flight only after submit_draws(), which must come before another
    // submit(); earlier steps may be collected in between.
    virtual Result<void> submit(const Batch& batch) = 0;

    // Takes the draws of a step with draws_late: `sampling`, `edits` and `masks` of the batch that submit() got, whose
    // other members are as they were. After an error nothing of the step is in flight, as after submit()'s.
    virtual Result<void> submit_draws(const Batch& batch) = 0;

    // Between submit() of a step with draws_late and its submit_draws(): give and replace the logits [vocab_size] of
    // one of its output rows. They wait for the forward pass. Its draws, log-probabilities and kept_logits are of what
    // is written.
    virtual Result<void> read_undrawn(int32_t output_row, std::span<float> logits) = 0;
    virtual Result<void> write_undrawn(int32_t output_row, std::span<const float> logits) = 0;

    // Waits for the oldest step in flight; `sampled` gets the token of each of its output rows. After an error the
    // slots that the step names have undefined contents, and so have those of later steps that read them. The later
    // steps must still be collected.
    virtual Result<void> collect(std::span<int32_t> sampled) = 0;

    // Gives the logits [vocab_size] of output row `index` of the step collected last. `index` must be one of that
    // step's kept_logits.
    virtual Result<void> read_logits(int32_t index, std::span<float> logits) = 0;

    // Gives the hidden state [hidden_size] of row state_rows[index] of the step collected last: what the final norm
    // makes of the last layer's output, in float32 whatever the executor's dtype, and what logits are a product of.
    virtual Result<void> read_state(int32_t index, std::span<float> state) = 0;

    // Gives what the step collected last found for each of its logprobs in order: the token asked for, or drawn, and
    // then the `top` most probable ones, the most probable first, the lower of two equal ones first.
    virtual Result<void> read_logprobs(std::span<TokenLogprob> logprobs) = 0;

    // Gives for each output row of the step collected last the surprise of the token drawn, -log2 of its probability
    // among what was left to draw from; 0 where SampleParams::most_surprise is infinite.
    virtual Result<void> read_surprises(std::span<float> surprises) = 0;

    // Gives the token weights of the step collected last: of each of its probes in order, of each token in order.
    virtual Result<void> read_token_weights(std::span<float> weights) = 0;

    // Copies pages, keys and values of every layer, in the order given: after the steps in flight, before the next
    // step.
    virtual Result<void> copy_pages(std::span<const PageCopy> copies) = 0;

    // ---- Pages outside the device, page first: [pages][num_layers][2, num_kv_heads, page_size, head_dim], 2 = keys,
    // values, in the pool's format. Every device has the same order of bytes.
    // Memory that read_pages and write_pages take, uninitialised. May be called by any thread. OUT_OF_MEMORY.
    virtual Result<HostMemory> allocate_host(size_t bytes) = 0;
    // Copies pages out of the pool, as the steps in flight leave them, into memory of allocate_host. They are there
    // when the call returns.
    virtual Result<void> read_pages(std::span<const int32_t> pages, std::span<std::byte> to) = 0;
    // Copies pages into the pool: after the steps in flight, before the next step. No page may be named twice. When the
    // call returns, `from`, memory of allocate_host, is free for other use.
    virtual Result<void> write_pages(std::span<const int32_t> pages, std::span<const std::byte> from) = 0;
};

}  // namespace nanolith
