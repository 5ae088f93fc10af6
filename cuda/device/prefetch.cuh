// Memory that is brought nearer before it is asked for.
#pragma once

#include <cstddef>

namespace nanolith::cuda {

// Starts to bring a cache line of global memory to the L1 cache (PTX "prefetch.global.L1").
__device__ inline void prefetch(const void* address) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

// The same for `bytes` bytes, none where the address is null. All threads of the block take part.
__device__ inline void prefetch_by_block(const void* from, int bytes) {
    constexpr int kLine = 128;  // bytes
    if (from == nullptr) return;
    for (int at = static_cast<int>(threadIdx.x) * kLine; at < bytes; at += static_cast<int>(blockDim.x) * kLine) {
        prefetch(static_cast<const std::byte*>(from) + at);
    }
}

// A kernel with at least one thread block for each row should prefetch what all blocks read, such as a norm's weights,
// in launches of up to so many rows. With more rows several blocks run on each multiprocessor, most of them find these
// bytes in L1 already, and the instructions that ask for them cost more time than they save.
constexpr unsigned kPrefetchedRows = 64;

}  // namespace nanolith::cuda
