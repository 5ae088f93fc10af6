// The kernel of wide.h: FlashAttention-3's pipeline (Shah et al., 2024) over a work list of paged segments.
#pragma once

#include "attention/wide_consume.cuh"
#include "attention/wide_load.cuh"
#include "attention/wide_prepare.cuh"

namespace nanolith::cuda::wide {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int kRegisters>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define NL_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define NL_CLUSTER(blocks)
#endif

template <typename V>
__global__ void __launch_bounds__(kThreads, 1) NL_CLUSTER(V::kCluster)
    attention_kernel(const __grid_constant__ CUtensorMap map,
                     const __grid_constant__ Parameters<typename V::T> parameters) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) std::byte wide_shared[];  // the swizzle counts from multiples of 1 KiB
    Shared<V>& shared = *reinterpret_cast<Shared<V>*>(wide_shared);
    if (threadIdx.x == 0) {
        tma_prefetch_map(&map);
        init_barriers(shared);
    }
    if constexpr (V::kCluster > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp < 4) {
        give_registers<V::kProducerRegisters>();
        if (warp == 0) {
            Loader<V>(shared, parameters, &map).run();
        } else {
            Preparer<V>(shared, parameters).run();
        }
    } else {
        take_registers<V::kConsumerRegisters>();
        Consumer<V>(shared, parameters).run();
    }
    if constexpr (V::kCluster > 1) cluster_sync();  // others may still write to this block's barriers
#endif
}

}  // namespace nanolith::cuda::wide
