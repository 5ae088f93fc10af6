// Products of few rows with a weight matrix, both bfloat16, on processors that multiply them as they are
// (has_bfloat16_products()).
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// The operands of the product y = x W^T, or y += x W^T where `accumulate`:
// y[r * y_stride + n] (+)= sum over k of weights[n * depth + k] * x[r * depth + k].
struct BFloat16Products {
    const BFloat16* weights = nullptr;
    const BFloat16* x = nullptr;
    int64_t depth = 0;
    float* y = nullptr;
    int64_t y_stride = 0;
    bool accumulate = false;
};

// Computes that for r < rows, at most kFewRows (dot_products.h), and n < outputs. Products are exact and summed in
// float32; numbers smaller than 2^-126 count as 0. How a row's sum is rounded does not depend on other rows.
void bfloat16_products(const BFloat16Products& of, int64_t rows, int64_t outputs);

}  // namespace nanolith::cpu
