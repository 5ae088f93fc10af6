// The host's memory of a step while it is in flight, and until the next step is collected.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_traffic.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Page-locked host memory of one step, which the device reads and writes while the host does something else.
struct StepSlot {
    PinnedBuffer batch;          // what is copied to the device; grows as needed
    PinnedBuffer sampled;        // [max_output_rows] int32, written by the step's last kernel
    PinnedBuffer surprises;      // [max_output_rows] float32, by the same kernel; see DrawTables::surprises
    PinnedBuffer logprobs;       // [num_logprobs] TokenLogprob, by the same kernel; grows as needed
    PinnedBuffer draws;          // what LateDraws sends; grows as needed
    PinnedBuffer logits;         // [max_kept_logits, vocab] float32, allocated when a step first keeps logits
    PinnedBuffer states;         // [num_states, hidden] float32, written by a kernel; grows as needed
    PinnedBuffer probe_pages;    // Probes::pages, allocated when a step first has probes
    PinnedBuffer token_weights;  // [num_token_weights] float32, allocated as those
    size_t num_token_weights = 0;
    Event done;              // recorded at the step's end
    size_t num_outputs = 0;  // output rows of the step
    size_t num_logprobs = 0;
    size_t num_states = 0;      // state rows of the step
    std::vector<int32_t> kept;  // Batch::kept_logits of the step
    // For ExecutorOptions::profile: what the step must do at least.
    StepTraffic traffic{};
    size_t num_rows = 0;
    bool decodes = false;  // every row draws a token
};

// A ring of slots: the steps in flight, the oldest first, and the step collected last. A slot is used again only after
// its step has been collected, so that no call here waits.
class StepSlots {
  public:
    static constexpr int32_t kMaxInFlight = 2;

    static Result<StepSlots> create(int32_t max_output_rows);

    [[nodiscard]] int32_t in_flight() const { return in_flight_; }
    // The slot of the next step, while fewer than kMaxInFlight are in flight. push() is to be called once the step has
    // been submitted.
    [[nodiscard]] StepSlot& next() { return at(in_flight_); }
    void push() { ++in_flight_; }
    // The slot of the oldest step in flight. pop() is to be called once the step has been collected.
    [[nodiscard]] StepSlot& oldest() { return at(0); }
    void pop() {
        oldest_ = (oldest_ + 1) % slots_.size();
        --in_flight_;
    }
    // The slot of the step collected last, or one without kept logits before any has been.
    [[nodiscard]] StepSlot& collected() { return at(static_cast<int32_t>(slots_.size()) - 1); }

  private:
    [[nodiscard]] StepSlot& at(int32_t after_oldest) {
        return slots_[(oldest_ + static_cast<size_t>(after_oldest)) % slots_.size()];
    }

    std::array<StepSlot, kMaxInFlight + 1> slots_;
    size_t oldest_ = 0;
    int32_t in_flight_ = 0;
};

}  // namespace nanolith::cuda
