// What a step needs of its own while it is in flight, and until the next one is collected.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_traffic.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Page-locked host memory that the device reads from and writes to while the host is elsewhere.
struct StepSlot {
    PinnedBuffer batch;         // what is copied to the device; grows as needed
    PinnedBuffer sampled;       // [max_output_rows] int32, written by the step's last kernel
    PinnedBuffer logits;        // [max_kept_logits, vocab] float32 of kept_logits, allocated when first wanted
    Event done;                 // passed when the step has ended
    size_t num_outputs = 0;     // output rows
    std::vector<int32_t> kept;  // its kept_logits
    // For ExecutorOptions::profile: what the step must do at least.
    StepTraffic traffic{};
    size_t num_rows = 0;
    bool decodes = false;  // every row draws a token
};

// Slots in turn: steps in flight, oldest first, and the one collected last. A slot comes up again when its step has
// been collected, so there is nothing to wait for.
class StepSlots {
  public:
    static constexpr int32_t kMaxInFlight = 2;

    static Result<StepSlots> create(int32_t max_output_rows);

    [[nodiscard]] int32_t in_flight() const { return in_flight_; }
    // Where the next step goes; push() when it has been submitted. There is one while fewer than kMaxInFlight are in
    // flight.
    [[nodiscard]] StepSlot& next() { return at(in_flight_); }
    void push() { ++in_flight_; }
    // The oldest step in flight; pop() when it has been collected.
    [[nodiscard]] StepSlot& oldest() { return at(0); }
    void pop() {
        oldest_ = (oldest_ + 1) % slots_.size();
        --in_flight_;
    }
    // The step collected last; one without kept logits where there is none.
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
