// Products of rows with a weight matrix as dot products: weights are read as they lie, 16-bit ones are widened in
// registers, and nothing is packed or allocated.
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// The most rows that are still "few": their product is bound by memory, and weights are read in the order in which they
// lie.
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
};

// Computes that for r < rows and n < outputs. With `few`, each weight is read once for all rows. Without it the depth
// is cut into pieces for which five rows of x fit the first-level cache, and the weights are read once for every five
// rows: they should fit the second-level cache. How a row's sum is rounded depends on `few`, and on no other row.
void dot_products(const DotProducts<float>& of, int64_t rows, int64_t outputs, bool few);
void dot_products(const DotProducts<BFloat16>& of, int64_t rows, int64_t outputs, bool few);

// A row of x as dot_products() reads it beside weights of its type: float32, and for BFloat16 reordered as the weights
// are widened: of each two vectors of values, first those with an even number, then those with an odd one.
void spread(const float* x, int64_t depth, float* to);
void spread(const BFloat16* x, int64_t depth, float* to);

}  // namespace nanolith::cpu
