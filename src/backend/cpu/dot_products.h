// Products of rows with a weight matrix as dot products: weights are read as they lie, 16-bit ones are widened in
// registers, and nothing is packed or allocated.
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// Rows for which each weight is read once.
constexpr int64_t kFewRows = 8;

// The operands of the product y = x W^T, or y += x W^T where `accumulate`:
// y[r * y_stride + n] (+)= sum over k of weights[n * depth + k] * x[r * depth + k]. Each row of x is float32 and has
// its `depth` values in the order in which spread() writes them.
template <typename T>
struct DotProducts {
    const T* weights = nullptr;
    const float* x = nullptr;
    int64_t depth = 0;
    float* y = nullptr;
    int64_t y_stride = 0;
    bool accumulate = false;
    // Where the weights of the next product lie, as many in the same order: they are fetched beside these. Null: none.
    const T* next = nullptr;
};

// Computes that for r < rows and n < outputs. The weights are read once for every eight rows: of more, they should fit
// the second-level cache. How a row's sum is rounded does not depend on other rows.
void dot_products(const DotProducts<float>& of, int64_t rows, int64_t outputs);
void dot_products(const DotProducts<BFloat16>& of, int64_t rows, int64_t outputs);

// A row of x as dot_products() reads it beside weights of its type: float32, and for BFloat16 reordered as the weights
// are widened: of each two vectors of values, first those with an even number, then those with an odd one.
void spread(const float* x, int64_t depth, float* to);
void spread(const BFloat16* x, int64_t depth, float* to);
// A row of float32 beside weights of BFloat16.
void spread_pairs(const float* x, int64_t depth, float* to);

}  // namespace nanolith::cpu
