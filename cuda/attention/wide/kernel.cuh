// The kernel of wide.h: FlashAttention-3's pipeline (Shah et al., 2024) over a work list of paged segments.
//
// Tiling: persistent blocks of 3 warpgroups, one on each multiprocessor, compute (item, KV head) pairs, each of 128
// query vectors against tiles of 128 tokens (64 at head_dim 256). The planner orders the items (order_wide): costliest
// first, but in groups of sequences, and of long sequences only some KV heads at once, so that L2 holds what a group
// reads. One warp starts the copies (TMA) of K and V straight from the pages, two stages each; three warps rotate the
// next item's queries; the other two warpgroups compute 64 vectors each, S = Q K^T from shared memory and O += P V with
// P from registers, and one issues its products while the other computes its softmax. Tiles of consecutive items follow
// each other without a gap. A computing thread has 216 registers and each other thread 72. At head_dim 128 and 256 nvcc
// 13.0 spills one or two words for each thread (sm_90a), none of them inside the loops over tiles. A block has 197 KiB
// of shared memory at head_dim 128.
//
// How a launch begins decides how long a short one takes, because instructions are not in the caches yet: the first
// execution of each takes about ten cycles. So there is no separate code for a block's first tile, and the queries of
// the block's first step are rotated by the eight computing warps, which have nothing else to do then, in place of
// three. The launch may begin early (device/dependent.cuh): its blocks then initialise their barriers and read the plan
// while the launch before, which writes queries, keys and values, still runs, and wait for it to end before they read
// those.
//
// Flops: 4 * head_dim for each pair of a vector and a token that it attends to, and up to 64 more tokens a vector at
// the causal limit. Bytes: each item reads 4 * head_dim for each token and KV head, mostly from L2: 128 flops a byte.
// On an H200 with head_dim 128 (bf16, causal, 32:8 heads): 590 to 600 TFLOP/s for 4 x 2048 tokens, 705 to 715 for 8192
// and 640 to 730 for 32768. Long contexts are bound by power, not by a hardware unit: the clock falls to 1.65 GHz
// of 1.98, and the tensor cores are busy 82% of the time. Short contexts are bound by an item's work outside its tiles.
//
// ptxas may serialise the products when the code around them changes (warnings C75xx), and it splits a group of
// products silently at a branch: check the warnings, and the number of HGMMA and DEPBAR instructions, after any change.
#pragma once

#include "attention/wide/consume.cuh"
#include "attention/wide/load.cuh"
#include "attention/wide/prepare.cuh"
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
    if constexpr (V::kCluster > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp < 4) {
        decrease_registers<V::kProducerRegisters>();
        if (warp == 0) {
            Loader<V>(shared, parameters, &map).run();
        } else {
            Preparer<V>(shared, parameters).run();
        }
    } else {
        increase_registers<V::kConsumerRegisters>();
        Consumer<V>(shared, parameters).run();
    }
    if constexpr (V::kCluster > 1) cluster_sync();  // others may still write to this block's barriers
#endif
}

}  // namespace nanolith::cuda::wide
