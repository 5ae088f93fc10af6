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

// Waits until so many have arrived; what they wrote before can be read then, in L2. Only for arrivals of blocks that
// have begun.
__device__ inline void await_arrivals(const int32_t* count, int32_t wanted) {
    int32_t now;
    do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    } while (now < wanted);
}

// Adds one, or returns to zero behind `last`; nobody waits for it.
__device__ inline void arrive_and_wrap(int32_t* count, int32_t last) {
    asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(count), "r"(last) : "memory");
}

}  // namespace nanolith::cuda
