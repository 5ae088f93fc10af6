// Copies from global to shared memory that run in the background (PTX "cp.async", sm_80 and newer).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nanolith::cuda {

// Starts a copy of 16 bytes, both addresses 16-byte aligned; writes zeros where `exists` is false.
__device__ inline void copy_async(void* shared, const void* global, bool exists) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const int bytes = exists ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
}

// Ends a group of the copies that the thread has started.
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the latest `kPending` of the thread's groups are not complete yet.
template <int kPending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace nanolith::cuda
