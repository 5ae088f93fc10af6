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

// -0 and 0 are equal logits, but not equal bits. A NaN stays one.
__device__ inline float without_sign_of_zero(float value) {
    return value + 0.0F;
}

// What filters have kept of a row is the tokens whose logits are from `least` to `most`.
struct Row {
    const float* logits;
    int size;
    const uint32_t* mask = nullptr;  // bits of the tokens that may be drawn, or null: all
    float highest = 0;               // of the logits that are kept
    float inverse_temperature = 1;
    float least = -INFINITY;
    float most = INFINITY;

    [[nodiscard]] __device__ bool keeps(float logit) const { return logit >= least && logit <= most; }
    [[nodiscard]] __device__ bool keeps_all() const { return least == -INFINITY && most == INFINITY; }

    // Makes `values`, the logits of the tokens from `at` on, those that a draw sees: minus infinity for a token that is
    // masked; a NaN stays one. The tokens are in one word of the mask.
    template <int N>
    __device__ void adjust(float (&values)[N], int at) const {
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = without_sign_of_zero(values[i]);
        if (mask == nullptr) return;
        const uint32_t allowed = mask[at / 32] >> (at % 32);
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (((allowed >> i) & 1U) == 0 && !isnan(values[i])) values[i] = -INFINITY;
    }
    [[nodiscard]] __device__ float logit(int token) const {
        float value[1] = {logits[token]};
        adjust(value, token);
        return value[0];
    }

    // How much less than the best, in nats at the temperature. Rounded as a product of its own wherever it is used, so
    // that every pass finds the same.
    [[nodiscard]] __device__ float distance(float logit) const {
        return logit == highest ? 0.0F : __fmul_rn(highest - logit, inverse_temperature);
    }

    // The same, but infinite for a token that is not kept: chosen before the exponential, without a branch.
    [[nodiscard]] __device__ float kept_distance(float logit) const {
        const float nats = distance(logit);
        return keeps(logit) ? nats : INFINITY;
    }

    // Relative to the most probable token; 1 for it even where it is infinite.
    [[nodiscard]] __device__ float probability(float logit) const {
        return expf(-distance(logit));
    }
    // The probability in units of 2^-40. Sums of such integers do not depend on the order of additions.
    [[nodiscard]] __device__ Mass mass(float logit) const {
        return static_cast<Mass>(probability(logit) * kMassUnit);
    }
    // 0 for a token that is not kept.
    [[nodiscard]] __device__ Mass kept_mass(float logit) const {
        return static_cast<Mass>(expf(-kept_distance(logit)) * kMassUnit);
    }
};

// Calls visit(values, token) with the logits of N tokens, `token` the first, for the tokens [begin, end) that fall to
// this one of `threads` threads: one access each, in ascending order. begin is a multiple of N, and end is one too or
// the row's. Rows of which N is 4 begin at 16-byte aligned addresses and have a multiple of 4 tokens. `UnderWay`
// accesses are under way before the first of them is used.
template <int N, int UnderWay = N == 1 ? 8 : 4, typename Visit>
__device__ void for_accesses(const Row& row, int begin, int end, int thread, int threads, const Visit& visit) {
    for (int first = begin + thread * N; first < end; first += UnderWay * threads * N) {
        float values[UnderWay][N];
#pragma unroll
        for (int j = 0; j < UnderWay; ++j) {
            const int at = first + j * threads * N;
            if (at < end) load_values(row.logits + at, values[j]);
        }
#pragma unroll
        for (int j = 0; j < UnderWay; ++j) {
            const int at = first + j * threads * N;
            if (at >= end) break;
            row.adjust(values[j], at);
            visit(values[j], at);
        }
    }
}

// The same with visit(logit, token), token by token.
template <int N, int UnderWay = N == 1 ? 8 : 4, typename Visit>
__device__ void for_logits(const Row& row, int begin, int end, int thread, int threads, const Visit& visit) {
    for_accesses<N, UnderWay>(row, begin, end, thread, threads, [&](const float(&values)[N], int at) {
#pragma unroll
        for (int i = 0; i < N; ++i) visit(values[i], at + i);
    });
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

}  // namespace nanolith::cuda
