// Starts to bring a cache line of global memory to the L1 cache (PTX "prefetch.global.L1").
#pragma once

namespace nanolith::cuda {

__device__ inline void prefetch(const void* address) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

}  // namespace nanolith::cuda
