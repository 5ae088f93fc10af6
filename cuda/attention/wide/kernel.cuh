// The kernel of wide.h: FlashAttention-3's pipeline (Shah et al., 2024) over a work list of paged segments.
//
// Tiling: persistent blocks of 3 warpgroups, one on each multiprocessor, take (item, KV head) pairs, costliest first,
// but some sequences after the others, and of long ones some KV heads, so that L2 holds what they read: 128 query
// vectors against tiles of 128 tokens (64 at head_dim 256). One warp has the copy engine bring K and V, two stages
// each, straight from the pages; three warps prepare the next item's queries, rotated; the other two warpgroups compute
// 64 vectors each, S = Q K^T from shared memory and O += P V with P from registers, one issuing its products while the
// other computes its softmax. Tiles of consecutive items flow into each other. 216 registers a computing thread, 72 for
// the others, no spills (sm_90a, nvcc 13.0) but of two words outside the loops at head_dim 256; 197 KiB of shared
// memory at head_dim 128. What is not run costs too: with 15% fewer instructions, of code for empty items and a second
// copy of what loads queries, shared prefixes took 1 to 2 us less.
//
// Flops: 4 * head_dim for each vector and token that it sees, and up to 64 tokens' more at the causal edge. Bytes: each
// item reads 4 * head_dim for each token and KV head, mostly from L2: 128 flops a byte. On an H200 with head_dim 128
// (bf16, causal, 32:8 heads): 590 to 600 TFLOP/s for 4 x 2048 tokens, 705 to 715 for 8192 and 640 to 730 for 32768.
// Long contexts are bound by power, not by a unit: the clock falls to 1.65 GHz of 1.98, and tensor cores are busy 82%
// of the time. Short ones are bound by what an item costs beside its tiles.
//
// ptxas may serialize products where code around them changes (warnings C75xx), and splits a group of them silently at
// a branch: look at the warnings, and at the number of HGMMA and DEPBAR, after any change.
#pragma once

#include "attention/wide/consume.cuh"
#include "attention/wide/load.cuh"
#include "attention/wide/prepare.cuh"
#include "device/dependent.cuh"
#include "device/registers.cuh"

namespace nanolith::cuda::wide {

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
    } else if (threadIdx.x == 32) {
        Preparer<V>::prefetch_first(parameters);
    }
    let_next_launch_begin();  // narrow items, on multiprocessors that this has left
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
