// Blocks of a cluster, which run at the same time on neighbouring multiprocessors and reach each other's shared memory
// (CUDA Programming Guide, "Thread Block Clusters" and "Distributed Shared Memory"; sm_90). LaunchShape::cluster asks
// for it. Code for older devices traps.
#pragma once

#include <cstdint>

#include "device/mbarrier.cuh"

namespace nanolith::cuda {

// The block's number in its cluster.
__device__ inline int cluster_rank() {
    uint32_t rank = 0;
#ifdef NL_HOPPER
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#else
    __trap();
#endif
    return static_cast<int>(rank);
}

// The cluster's number in the grid; without clusters that of the block.
__device__ inline int cluster_index() {
    uint32_t index = 0;
#ifdef NL_HOPPER
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
#else
    __trap();
#endif
    return static_cast<int>(index);
}

// The address at which the block `rank` has what this one has at `shared` in its shared memory (PTX "mapa").
template <typename T>
__device__ T* in_block(T* shared, int rank) {
    uint64_t there = 0;
#ifdef NL_HOPPER
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
#else
    __trap();
#endif
    return reinterpret_cast<T*>(there);
}

// The four numbers at the address, 16-byte aligned, at which the block `rank` has what this one has at `shared` (PTX
// "ld.shared::cluster").
__device__ inline float4 load_from_block(const float* shared, int rank) {
    float4 four = {};
#ifdef NL_HOPPER
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %4, %5;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
        "}"
        : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
        : "r"(shared_address(shared)), "r"(rank)
        : "memory");
#else
    __trap();
#endif
    return four;
}

// A barrier of all threads of the cluster in two halves (PTX "barrier.cluster"): what a thread wrote before it arrived,
// to any block's shared memory, can be read by those that have waited. Each thread calls them in turn.
__device__ inline void cluster_arrive() {
#ifdef NL_HOPPER
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
    __trap();
#endif
}
// The first half of the barrier for a thread that has only read other blocks' memory since the last one: its own writes
// need not become visible to them, so that it costs less (PTX "barrier.cluster.arrive.relaxed").
__device__ inline void cluster_arrive_after_reading() {
#ifdef NL_HOPPER
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
    __trap();
#endif
}
__device__ inline void cluster_wait() {
#ifdef NL_HOPPER
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
    __trap();
#endif
}

}  // namespace nanolith::cuda
