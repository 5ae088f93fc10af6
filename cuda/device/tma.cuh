// The copy engine for boxes of a tensor, TMA (PTX "cp.async.bulk.tensor"; sm_90).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "device/mbarrier.cuh"

namespace nanolith::cuda {

// Copies the map's box at element (x, y) of a 2D tensor to shared memory; its bytes count on `barrier`.
__device__ inline void tma_load(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y) {
#ifdef NL_HOPPER
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
        : "memory");
#else
    __trap();
#endif
}

// The same at element (x, 0, 0, y) of a 4D tensor.
__device__ inline void tma_load_4d(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y) {
#ifdef NL_HOPPER
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %5, %5, "
        "%4}], [%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(0)
        : "memory");
#else
    __trap();
#endif
}

// The same at element (0, x, y, z) of a 4D tensor.
__device__ inline void tma_load_upper(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y, int z) {
#ifdef NL_HOPPER
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%6, %3, %4, "
        "%5}], [%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(0)
        : "memory");
#else
    __trap();
#endif
}

// As tma_load_4d, to the same address in the shared memory of all kBlocks blocks of the cluster; the bytes count on the
// same barrier of each (PTX "multicast::cluster").
template <int kBlocks>
__device__ void tma_load_4d_to_all(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y) {
#ifdef NL_HOPPER
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %5, %5, %4}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(0), "h"(static_cast<uint16_t>((1 << kBlocks) - 1))
        : "memory");
#else
    __trap();
#endif
}

// Copies `bytes` bytes, a multiple of 16 as both addresses are, to shared memory; they count on `barrier` (PTX
// "cp.async.bulk").
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
#ifdef NL_HOPPER
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#else
    __trap();
#endif
}

__device__ inline void tma_prefetch_map(const CUtensorMap* map) {
#ifdef NL_HOPPER
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
    __trap();
#endif
}

}  // namespace nanolith::cuda
