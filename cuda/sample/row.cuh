// One row of logits as the threads of a block read it, and what its tokens weigh in a draw.
#pragma once

#include <cstdint>

#include "device/number.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

constexpr float kMassUnit = 1099511627776.0F;  // 2^40: 2^24 masses still fit 64 bits

using Mass = unsigned long long;

// A float as an unsigned number of the same order.
__device__ inline unsigned ordered_bits(float value) {
    const unsigned bits = __float_as_uint(value);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ inline float from_ordered_bits(unsigned bits) {
    return __uint_as_float((bits & 0x80000000U) != 0 ? bits & 0x7fffffffU : ~bits);
}

// -0 and 0 are equal logits, but not equal bits.
__device__ inline float without_sign_of_zero(float value) {
    return value == 0 ? 0.0F : value;
}

// What filters have kept of a row is the tokens whose logits have bits from `least` to `most`.
struct Row {
    const float* logits;
    int size;
    const uint32_t* mask = nullptr;  // bits of the tokens that may be drawn, or null: all
    float highest = 0;               // of the logits that are kept
    float inverse_temperature = 1;
    unsigned least = 0;
    unsigned most = ~0U;

    [[nodiscard]] __device__ bool keeps(float logit) const {
        const unsigned bits = ordered_bits(logit);
        return bits >= least && bits <= most;
    }
    // Minus infinity for a token that is masked; a NaN stays one.
    [[nodiscard]] __device__ float masked(float logit, int token) const {
        const bool allowed = mask == nullptr || ((mask[token / 32] >> (token % 32)) & 1U) != 0;
        return allowed || isnan(logit) ? logit : -INFINITY;
    }
    // How much less than the best, in nats at the temperature.
    [[nodiscard]] __device__ float distance(float logit) const {
        return logit == highest ? 0.0F : (highest - logit) * inverse_temperature;
    }

    // Relative to the most probable token; 1 for it even where it is infinite.
    __device__ float probability(float logit) const {
        return logit == highest ? 1.0F : expf((logit - highest) * inverse_temperature);
    }
    // The probability in units of 2^-40. Sums of such integers do not depend on the order of additions.
    __device__ Mass mass(float logit) const { return static_cast<Mass>(probability(logit) * kMassUnit); }
};

// Calls visit(logit, token) for the tokens [begin, end) that fall to this one of `threads` threads: N at a time, with
// one access each. begin is a multiple of N, and end is one too or the row's. Rows of which N is 4 begin at 16-byte
// aligned addresses. Several accesses are under way before the first of them is used.
template <int N, typename Visit>
__device__ void for_logits(const Row& row, int begin, int end, int thread, int threads, const Visit& visit) {
    constexpr int kUnderWay = N == 1 ? 8 : 4;
    for (int first = begin + thread * N; first < end; first += kUnderWay * threads * N) {
        float values[kUnderWay][N];
#pragma unroll
        for (int j = 0; j < kUnderWay; ++j) {
            const int at = first + j * threads * N;
            if (at < end) load_values(row.logits + at, values[j]);
        }
#pragma unroll
        for (int j = 0; j < kUnderWay; ++j) {
            const int at = first + j * threads * N;
            if (at >= end) break;
#pragma unroll
            for (int i = 0; i < N; ++i) visit(row.masked(without_sign_of_zero(values[j][i]), at + i), at + i);
        }
    }
}

// How much of `total` the tokens that top-p keeps hold at least; both are from 1 on.
__device__ inline Mass share_of(float top_p, Mass total) {
    const double share = ceil(static_cast<double>(top_p) * static_cast<double>(total));
    return min(max(static_cast<Mass>(share), Mass{1}), total);
}

// The running mass that the drawn token is the first to exceed.
__device__ inline Mass draw_target(double uniform, Mass total) {
    return min(static_cast<Mass>(uniform * static_cast<double>(total)), total - 1);
}

__device__ inline Mass warp_total(Mass mass) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) mass += __shfl_xor_sync(kAllLanes, mass, step);
    return mass;
}

// The sum over the lanes up to this one.
__device__ inline Mass warp_running(Mass mass) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const Mass lower = __shfl_up_sync(kAllLanes, mass, static_cast<unsigned>(step));
        if (lane >= step) mass += lower;
    }
    return mass;
}

}  // namespace nanolith::cuda
