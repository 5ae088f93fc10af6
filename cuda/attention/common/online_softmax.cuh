// The online softmax of Milakov and Gimelshein (2018): the highest score m and the sum d of the weights 2^(score - m)
// of the tokens so far. The weighted values O are kept by the kernels, as their products lay them out; they are
// rescaled with d, and divided by it once at the end (FlashAttention-2, Dao, 2023).
#pragma once

#include "attention/common/scores.cuh"
#include "device/fragment.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// The number that scores are relative to, in the weights 2^(score - reference): the highest of them. Where all are
// -infinity, because no token is visible so far, any finite number gives weights of zero.
__device__ __forceinline__ float weight_reference(float highest) {
    return highest == -INFINITY ? 0.0F : highest;
}

// m and d of one query vector; scores are to base 2.
struct alignas(8) OnlineSoftmax {
    float highest = -INFINITY;
    float sum = 0;

    // Raises m to `top`, which is no lower, and returns the factor that d is multiplied by and O must be.
    template <typename Math>
    __device__ __forceinline__ float raise(float top) {
        const float correction = Math::exp2(highest - weight_reference(top));
        highest = top;
        sum *= correction;
        return correction;
    }

    // Log-sum-exp to base 2; -infinity where no token is visible.
    __device__ __forceinline__ float lse() const { return sum == 0 ? -INFINITY : highest + log2f(sum); }
};

// Scores become weights, and the softmax of the lane's two vectors counts them; each sum is of the lane's own tokens.
// `correction`: the factors that the vectors' O must be multiplied by.
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
