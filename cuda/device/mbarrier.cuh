// Barriers in shared memory that count arrivals and bytes (PTX "mbarrier"; sm_90), named barriers among some of a
// block's warps (PTX "bar"), and the fence between ordinary accesses and those of the tensor cores and the copy engine
// (PTX "fence.proxy.async").
//
// With NL_CHECK_HANGS defined, a wait of more than a second fails with the name of what it waited for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/ring_position.cuh"

// Code for older devices is compiled, so that one build serves all, and traps where it would need these.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define NL_HOPPER
#endif

#ifdef NL_CHECK_HANGS
extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned line, const char* function,
                                        size_t char_bytes);
#endif

namespace nanolith::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A phase is complete after `arrivals` arrivals. One thread initialises; fence_barrier_init and a block-wide barrier
// follow.
__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ inline void fence_barrier_init() {
#ifdef NL_HOPPER
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
    __trap();
#endif
}

__device__ inline void barrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Counts as `times` arrivals.
__device__ inline void barrier_arrive(uint64_t* barrier, uint32_t times) {
#ifdef NL_HOPPER
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(times) : "memory");
#else
    __trap();
#endif
}

// Arrives at the same barrier of the cluster's block `rank` (PTX "mapa", "mbarrier.arrive").
__device__ inline void barrier_arrive_at(uint64_t* barrier, int rank) {
#ifdef NL_HOPPER
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
#else
    __trap();
#endif
}

// Waits for all threads of the cluster's blocks (PTX "barrier.cluster").
__device__ inline void cluster_sync() {
#ifdef NL_HOPPER
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
    __trap();
#endif
}

// Arrives, and adds `bytes` to what must have been copied to shared memory on this barrier before the phase is complete
// (PTX "mbarrier.arrive.expect_tx").
__device__ inline void barrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
#ifdef NL_HOPPER
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

__device__ inline bool barrier_try_wait(uint64_t* barrier, uint32_t parity) {
    uint32_t done = 0;
#ifdef NL_HOPPER
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#else
    __trap();
#endif
    return done != 0;
}

// Waits until the phase of that parity is complete (the first phase has parity 0). `what` is for NL_CHECK_HANGS.
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity, [[maybe_unused]] const char* what) {
#ifdef NL_CHECK_HANGS
    const long long begin = clock64();
    while (!barrier_try_wait(barrier, parity)) {
        if (clock64() - begin > 2'000'000'000LL) __assertfail(what, "mbarrier", 0, "barrier_wait", sizeof(char));
    }
#else
    while (!barrier_try_wait(barrier, parity)) {
    }
#endif
}

// Makes this thread's ordinary writes to shared memory visible to the tensor cores and the copy engine.
__device__ inline void fence_async_proxy() {
#ifdef NL_HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    __trap();
#endif
}

// A barrier among `threads` threads of the block, whole warps; numbers 1 to 15 (0 is __syncthreads).
__device__ inline void named_barrier_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void named_barrier_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace nanolith::cuda
