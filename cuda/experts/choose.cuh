// A row's choice of experts by its router's logits.
#pragma once

#include <climits>

#include "backend/model_spec.h"
#include "device/reduce.cuh"

namespace nanolith::cuda {

struct Best {
    float logit;
    int expert;  // INT_MAX: none
};

__device__ inline bool is_before(const Best& a, const Best& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

// Maps logits to unsigned numbers above 0 in the same order; -0 and +0 become the same number.
__device__ inline unsigned ordered(float logit) {
    const unsigned bits = __float_as_uint(logit + 0.0F);
    return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
}

// A row's logits: each lane of a warp holds those of experts lane, lane + 32 and so on, as many as fit.
struct RowLogits {
    static constexpr int kHeld = 8;

    const float* all;
    int count;
    int lane;
    float held[kHeld];

    __device__ RowLogits(const float* logits, int num_experts)
        : all(logits), count(num_experts), lane(static_cast<int>(threadIdx.x) % kWarp) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k) held[k] = lane + k * kWarp < count ? all[lane + k * kWarp] : -INFINITY;
    }

    // Calls visit(expert, logit) for each of the lane's experts.
    template <typename Visit>
    __device__ void each(const Visit& visit) const {
#pragma unroll
        for (int k = 0; k < kHeld; ++k) {
            if (lane + k * kWarp < count) visit(lane + k * kWarp, held[k]);
        }
        for (int i = lane + kHeld * kWarp; i < count; i += kWarp) visit(i, all[i]);
    }
};

// The best expert after `last`.
__device__ inline Best next_best(const RowLogits& logits, const Best& last) {
    Best best{-INFINITY, INT_MAX};
    logits.each([&](int expert, float logit) {
        const Best candidate{logit, expert};
        if (is_before(last, candidate) && is_before(candidate, best)) best = candidate;
    });
    const unsigned key = best.expert == INT_MAX ? 0 : ordered(best.logit);
    const unsigned highest = __reduce_max_sync(kAllLanes, key);
    const int expert = __reduce_min_sync(kAllLanes, key == highest ? best.expert : INT_MAX);
    if (expert == INT_MAX) return {-INFINITY, INT_MAX};
    return {__shfl_sync(kAllLanes, best.logit, expert % kWarp), expert};
}

// Writes the top_k experts of a row to `experts`, the best first, each after the last in the order of (logit, number),
// and the factors by which their outputs are added, which softmax gives, to `shares`. logits [experts]. Where
// logits are NaN, experts are chosen whose outputs say nothing. To be called by all lanes of a warp.
__device__ inline void choose_experts(const float* logits, const ExpertSpec& spec, int32_t* experts, float* shares) {
    const RowLogits row(logits, spec.count);
    Best best{INFINITY, -1};
    float highest = 0;
    float total = 0;
    for (int j = 0; j < spec.top_k; ++j) {
        best = next_best(row, best);
        if (best.expert == INT_MAX) best.expert = j;  // of NaN alone
        if (j == 0) highest = best.logit;
        const float mass = expf(best.logit - highest);
        total += mass;
        if (row.lane == 0) {
            experts[j] = best.expert;
            shares[j] = mass;
        }
    }
    if (!spec.normalized) {
        total = 0;
        row.each([&](int, float logit) { total += expf(logit - highest); });
        total = warp_sum(total);
    }
    if (row.lane == 0) {
        for (int j = 0; j < spec.top_k; ++j) shares[j] /= total;
    }
}

}  // namespace nanolith::cuda
