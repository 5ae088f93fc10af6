// Copies from global to shared memory that go on beside the arithmetic (cp.async, sm_80 and newer).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nanolith::cuda {

// Begins a copy of 16 bytes, both addresses 16-byte aligned; zeros where `there` is false.
__device__ inline void copy_async(void* shared, const void* global, bool there) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
}

// Ends a group of the copies that the thread has begun.
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `kPending` of the thread's latest groups are under way.
template <int kPending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace nanolith::cuda
