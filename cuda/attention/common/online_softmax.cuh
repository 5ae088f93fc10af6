// The online softmax of Milakov and Gimelshein (2018): the highest score m and the sum d of the weights 2^(score - m)
// of the tokens so far. The weighted values O are kept by the kernels, as their products lay them out; they are
// rescaled with d, and divided by it once at the end (FlashAttention-2, Dao, 2023).
#pragma once

#include "attention/common/scores.cuh"
#include "device/fragment.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// Returns the reference in the weights 2^(score - reference): the highest score so far, so that no weight exceeds 1. If
// no token was visible so far, the highest score is -infinity, and (-infinity) - (-infinity) would be NaN; the
// reference is 0 then, and all weights become 0.
__device__ __forceinline__ float weight_reference(float highest) {
    return highest == -INFINITY ? 0.0F : highest;
}

// m and d of one query vector; scores are to base 2.
struct alignas(8) OnlineSoftmax {
    float highest = -INFINITY;
    float sum = 0;

    // Raises m to `top` (at least m) and rescales d to it. Returns the factor that the caller must multiply O by.
    template <typename Math>
    __device__ __forceinline__ float raise(float top) {
        const float correction = Math::exp2(highest - weight_reference(top));
        highest = top;
        sum *= correction;
        return correction;
    }

    // Log-sum-exp to base 2; -infinity where no token is visible.
    template <typename Math>
    __device__ __forceinline__ float lse() const {
        return sum == 0 ? -INFINITY : highest + Math::log2(sum);
    }
};

// Replaces the scores of a tile by their weights 2^(score - m), and updates m and d of the lane's two query vectors. m
// is the highest over all four lanes that share these vectors; d sums the weights of the lane's own tokens only.
// `correction` receives, for each of the two vectors, the factor that its O must be multiplied by.
template <typename Math, int kTokens>
__device__ __forceinline__ void weigh(OnlineSoftmax (&softmax)[2], Fragment<kTokens>& scores, float (&correction)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float top = softmax[half].highest;
#pragma unroll
        for (int octet = 0; octet < Fragment<kTokens>::kOctets; ++octet) {
            top = fmaxf(top, fmaxf(scores.at(octet, half, 0), scores.at(octet, half, 1)));
        }
        top = four_lanes_max(top);
        correction[half] = softmax[half].raise<Math>(top);
        const float reference = weight_reference(top);
#pragma unroll
        for (int octet = 0; octet < Fragment<kTokens>::kOctets; ++octet) {
            float& first = scores.at(octet, half, 0);
            float& second = scores.at(octet, half, 1);
            first = Math::exp2(first - reference);
            second = Math::exp2(second - reference);
            softmax[half].sum += first + second;
        }
    }
}

}  // namespace nanolith::cuda
