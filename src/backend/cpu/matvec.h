// Products with few rows, which stream the weights once at memory speed.
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// The most rows that matvec is meant for: beyond, a matrix product does better.
constexpr int64_t kMatvecRows = 8;

// y[r * y_stride + n] (+)= sum over k of weights[n * depth + k] * x[r * depth + k], for r < rows and first <= n < last.
void matvec(const float* weights, int64_t depth, const float* x, int64_t rows, int64_t first, int64_t last, float* y,
            int64_t y_stride, bool accumulate);
void matvec(const BFloat16* weights, int64_t depth, const float* x, int64_t rows, int64_t first, int64_t last, float* y,
            int64_t y_stride, bool accumulate);

}  // namespace nanolith::cpu
