// Stands in for cuda/device/mbarrier.cuh, for barriers that one warp waits on for copies of its own: those are complete
// when the lane that starts them has run, so a wait is a meeting of the warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.h"

namespace nanolith::cuda {

// The emulated address of shared memory: its distance from the beginning of the block's dynamic shared memory.
inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(static_cast<const std::byte*>(pointer) - cuda_host::shared_memory());
}

inline void barrier_init(uint64_t*, uint32_t) {}
inline void fence_barrier_init() {}
inline void barrier_arrive_expect(uint64_t*, uint32_t) {}
inline void barrier_wait(uint64_t*, uint32_t, const char*) {
    cuda_host::exchange(0, 0, "mbarrier");
}

inline void fence_async_proxy() {}

}  // namespace nanolith::cuda
