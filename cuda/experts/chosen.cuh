// Which experts have rows to compute.
#pragma once

#include <cstdint>

#include "device/reduce.cuh"

namespace nanolith::cuda {

// Number `slot` of the experts that were chosen, in ascending order; -1: fewer were. begins [experts + 1]. To be called
// by whole warps.
__device__ inline int chosen_expert(const int32_t* begins, int experts, int slot) {
    for (int first = 0; first < experts; first += kWarp) {
        const int expert = first + static_cast<int>(threadIdx.x) % kWarp;
        const bool chosen = expert < experts && begins[expert] != begins[expert + 1];
        unsigned votes = __ballot_sync(kAllLanes, chosen);
        const int count = __popc(votes);
        if (slot >= count) {
            slot -= count;
            continue;
        }
        for (; slot > 0; --slot) votes &= votes - 1;
        return first + __ffs(static_cast<int>(votes)) - 1;
    }
    return -1;
}

}  // namespace nanolith::cuda
