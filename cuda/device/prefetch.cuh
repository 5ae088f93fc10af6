// Asks for a line of memory to be brought to the L1 cache.
#pragma once

namespace nanolith::cuda {

__device__ inline void prefetch(const void* address) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

}  // namespace nanolith::cuda
