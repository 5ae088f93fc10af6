// The micro-kernel of products whose right side is stored as it is walked: shared by packed products and attention.
#pragma once

#include <cstdint>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {

// Rows of `a` that are multiplied at a time: with two vectors of columns twelve sums, which keep two multiply-add units
// with a latency of four cycles busy, and leave three of 16 registers for what they are made of.
constexpr int kBlockRows = 6;

// c[m][n] (+)= sum over k < depth of a[m * a_stride + k] * b[k * b_stride + n], m < Rows, n < Vectors * Lanes. Each sum
// is taken in the order of k whatever Rows and Vectors are. `next` is where the b of the next product lies, fetched
// beside this one's; null: none.
template <int Lanes, int Rows, int Vectors, typename T>
NL_INLINE void product_block(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth,
                             bool accumulate, float* c, int64_t c_stride, const T* next = nullptr) {
    Vec<Lanes> sums[Rows][Vectors] = {};
    if (accumulate) {
        NL_UNROLL for (int m = 0; m < Rows; ++m) {
            NL_UNROLL for (int v = 0; v < Vectors; ++v) sums[m][v] = load<Lanes>(c + m * c_stride + v * Lanes);
        }
    }
    for (int64_t k = 0; k < depth; ++k) {
        if (next != nullptr) fetch<Vectors * Lanes>(next + k * b_stride);
        Vec<Lanes> values[Vectors];
        NL_UNROLL for (int v = 0; v < Vectors; ++v) values[v] = load<Lanes>(b + k * b_stride + v * Lanes);
        NL_UNROLL for (int m = 0; m < Rows; ++m) {
            const float factor = a[m * a_stride + k];
            NL_UNROLL for (int v = 0; v < Vectors; ++v) sums[m][v] += factor * values[v];
        }
    }
    NL_UNROLL for (int m = 0; m < Rows; ++m) {
        NL_UNROLL for (int v = 0; v < Vectors; ++v) {
            float* const to = c + m * c_stride + v * Lanes;
            store<Lanes>(to, sums[m][v]);
        }
    }
}

}  // namespace nanolith::cpu
