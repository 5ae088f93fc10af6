// Turns the products of queries and keys into the scores that the softmax takes: the scale and the soft cap change a
// product, the causal limit and the window decide whether its token is visible (AttentionRule). All kernels use these
// functions, so that a new modification of scores is a member of AttentionRule and a few lines of this file.
#pragma once

#include <cmath>

#include "attention/attention.h"
#include "attention/common/base2.h"
#include "device/fast_math.cuh"
#include "device/fragment.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// Kernels take the functions that compute weights, their sums' logarithms and reciprocals, and the soft cap from one of
// two classes, a template parameter.
// ExactMath calls the CUDA math library, whose results are right to the last bits of a float32.
struct ExactMath {
    __device__ static float exp2(float x) { return exp2f(x); }
    __device__ static float log2(float x) { return log2f(x); }
    __device__ static float reciprocal(float x) { return 1.0F / x; }

    // Scores become cap * tanh(score / cap).
    struct SoftCap {
        float cap;  // to base 2, as the scores

        __device__ __forceinline__ explicit SoftCap(float base2_cap) : cap(base2_cap) {}
        __device__ __forceinline__ float operator()(float score) const { return cap * tanhf(score / cap); }
    };
};

// FastMath uses approximations of one or two instructions. It is for kernels that round the weights to 16 bits
// afterwards: the approximations' errors are far smaller than that rounding.
struct FastMath {
    __device__ static float exp2(float x) { return fast_exp2(x); }
    __device__ static float log2(float x) { return fast_log2(x); }
    __device__ static float reciprocal(float x) { return fast_divide(1.0F, x); }

    // The same, computed as cap - 2 cap / (e^(2 score / cap) + 1). The error is about a float32 rounding of the cap.
    struct SoftCap {
        float cap;
        float to_exponent;  // e^(2 score / cap) is 2 to the power of the score times this

        __device__ __forceinline__ explicit SoftCap(float base2_cap)
            : cap(base2_cap), to_exponent(2.0F * kLog2E / base2_cap) {}
        __device__ __forceinline__ float operator()(float score) const {
            return cap - fast_divide(2.0F * cap, fast_exp2(score * to_exponent) + 1.0F);
        }
    };
};

// Replaces products by scores to base 2: multiplies them by the scale and log2(e), then applies the soft cap.
template <typename Math, int kTokens>
__device__ __forceinline__ void score(const AttentionRule& rule, Fragment<kTokens>& products) {
    const float factor = rule.scale * kLog2E;
    products.for_each([&](float& value) { value *= factor; });
    if (rule.softcap == 0) return;
    const typename Math::SoftCap soft_cap(rule.softcap * kLog2E);
    products.for_each([&](float& value) { value = soft_cap(value); });
}

// The same for one product.
template <typename Math>
__device__ __forceinline__ float score(const AttentionRule& rule, float product) {
    const float uncapped = product * rule.scale * kLog2E;
    if (rule.softcap == 0) return uncapped;
    return typename Math::SoftCap(rule.softcap * kLog2E)(uncapped);
}

// The rule's factors in the form that the wide kernel takes, prepared on the host. The kernel multiplies by the last
// factor only in its softmax, in the fused multiply-add that also subtracts the highest score. The factor is positive,
// so that the highest product is the highest score; a negative scale is in the queries.
struct FoldedRule {
    int query_sign = 1;     // of the scale, or 0: what queries are multiplied by
    float factor = 0;       // base-2 scores are products, or with a soft cap their tanh, times this
    float tanh_factor = 0;  // with a soft cap: what products are multiplied by before the tanh
};

inline FoldedRule fold(const AttentionRule& rule) {
    FoldedRule folded;
    folded.query_sign = rule.scale > 0 ? 1 : rule.scale < 0 ? -1 : 0;
    const float scale = rule.scale == 0 ? 1.0F : std::fabs(rule.scale);  // a scale of 0 is in the queries
    if (rule.softcap > 0) {
        folded.factor = rule.softcap * kLog2E;
        folded.tanh_factor = scale / rule.softcap;
    } else {
        folded.factor = scale * kLog2E;
    }
    return folded;
}

// Replaces products by tanh(tanh_factor * product). Multiplied by `factor`, these are the scores with the soft cap.
template <int kTokens>
__device__ __forceinline__ void cap_products(const FoldedRule& rule, Fragment<kTokens>& products) {
    products.for_each([&](float& value) { value = fast_tanh(value * rule.tanh_factor); });
}

// The causal limit: where the tokens that a query at `position` attends to end, at `end` or before. Positions and
// tokens are counted from the beginning of the segment.
__device__ inline int causal_end(int position, int end) {
    return min(end, position + 1);
}

// The first token in the window of a query at `position`, where the rule has a window.
__device__ inline int window_first(const AttentionRule& rule, int position) {
    return position - rule.window + 1;
}

// The tokens [first, end) of a span that a query vector attends to.
struct VisibleTokens {
    int first;
    int end;
};

__device__ inline VisibleTokens visible_tokens(const AttentionRule& rule, const Span& span, int position) {
    if (!rule.causal) return {span.first_token, span.end_token};
    const int first = rule.window > 0 ? max(span.first_token, window_first(rule, position)) : span.first_token;
    return {first, causal_end(position, span.end_token)};
}

// Scores of tokens that the lane's two vectors do not attend to become -infinity. `first_token` is that of the
// fragment's first column.
template <int kTokens>
__device__ __forceinline__ void mask(const VisibleTokens (&visible)[2], int first_token, Fragment<kTokens>& scores) {
    const int lane_token = first_token + Fragment<kTokens>::first_column(static_cast<int>(threadIdx.x) % kWarp);
#pragma unroll
    for (int octet = 0; octet < Fragment<kTokens>::kOctets; ++octet) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int token = lane_token + 8 * octet + i;
                if (token < visible[half].first || token >= visible[half].end) scores.at(octet, half, i) = -INFINITY;
            }
        }
    }
}

}  // namespace nanolith::cuda
