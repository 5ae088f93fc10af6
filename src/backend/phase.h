// The operations of a step's forward pass, which forward.h calls in this order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nanolith {

enum class Phase : uint8_t { attention_input, attention, attention_output, mlp_input, mlp_output, head };

constexpr size_t kNumPhases = 6;
constexpr const char* kPhaseNames[kNumPhases] = {"attention_input", "attention",  "attention_output",
                                                 "mlp_input",       "mlp_output", "head"};

// Something of each phase, summed over the layers.
template <typename T>
using ByPhase = std::array<T, kNumPhases>;

constexpr size_t index_of(Phase phase) {
    return static_cast<size_t>(phase);
}

}  // namespace nanolith
