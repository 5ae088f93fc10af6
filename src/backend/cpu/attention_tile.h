// The inner kernels of attention: small products with float32 accumulation and the online softmax of a tile of scores.
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// c[m][n] (+)= sum over k < depth of a[m * a_stride + k] * b[k * b_stride + n], m < rows, n < columns. `next` is where
// the b of the next product lies, fetched beside this one's; null: none.
void tile_product(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows, int64_t columns,
                  int64_t depth, bool accumulate, float* c, int64_t c_stride, const float* next);
void tile_product(const float* a, int64_t a_stride, const BFloat16* b, int64_t b_stride, int64_t rows, int64_t columns,
                  int64_t depth, bool accumulate, float* c, int64_t c_stride, const BFloat16* next);

// Adds a tile of scores to a running softmax (Milakov and Gimelshein, Online normalizer calculation for softmax): the
// first `visible` of the `count` scores become exp(score - highest), the others 0; `highest` and `total` move on, and
// sums[dim] shrinks by what `highest` grew.
void softmax_tile(float* scores, int64_t visible, int64_t count, float* highest, float* total, float* sums,
                  int64_t dim);

// y[i] = x[i] * factor.
void scale_row(const float* x, float factor, int64_t size, float* y);
void scale_row(const float* x, float factor, int64_t size, BFloat16* y);

}  // namespace nanolith::cpu
