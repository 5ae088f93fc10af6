// The choice of experts within a streamed product: each block makes it for itself, which spares launches.
#pragma once

#include "experts/choose.cuh"
#include "experts/routing.h"
#include "experts/streamed_experts.h"
#include "linear/streamed_tiles.cuh"

namespace nanolith::cuda {

constexpr int kMostPairs = 64;  // that a block has room for

// Chooses the experts of all rows, a warp for each. The last block, which always has tiles, keeps the choice.
__device__ inline void choose_all(const float* logits, const ExpertRows& rows, const RoutingView& to, int32_t* experts,
                                  float* shares) {
    const int row = static_cast<int>(threadIdx.x) / kWarp;
    const int top_k = rows.spec.top_k;
    if (row < rows.rows) {
        choose_experts(logits + row * rows.spec.count, rows.spec, experts + row * top_k, shares + row * top_k);
    }
    __syncthreads();
    if (blockIdx.x + 1 != gridDim.x) return;
    for (int pair = static_cast<int>(threadIdx.x); pair < rows.rows * top_k; pair += kStreamedThreads) {
        to.experts[pair] = experts[pair];
        to.shares[pair] = shares[pair];
    }
}

}  // namespace nanolith::cuda
