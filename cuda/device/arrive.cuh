// Counting the arrivals of blocks in device memory.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

// Adds one and returns what was there. What the block wrote before a block-wide barrier in front of this can be read by
// those whose arrivals come later, once they have met at such a barrier too, in L2 (__ldcg).
__device__ inline int32_t arrive_on_device(int32_t* count) {
    int32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    return before;
}

}  // namespace nanolith::cuda
