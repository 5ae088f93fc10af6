// A place in a ring of stages in shared memory, which barriers guard.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

// A position in a ring of kStages stages: the stage that is used next, and the parity of its barriers' phase.
template <int kStages>
struct RingPosition {
    int stage = 0;
    uint32_t parity = 0;

    __device__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1U;
        }
    }
};

}  // namespace nanolith::cuda
