// Products of few rows with compact weights, whose codes are widened in registers: no weight is rounded.
#pragma once

#include <cstdint>

#include "backend/compact_weight.h"
#include "backend/cpu/compact_matrix.h"
#include "backend/cpu/compact_rows.h"

namespace nanolith::cpu {

// y[r * y_stride + n] (+)= sum over k of weight (first_output + n, k) * x[r][k], where x[r] is a row as
// spread_compact() stores it. The first output is the first of a strip.
struct CompactProducts {
    CompactForm form;
    const std::byte* strips = nullptr;  // of the first output
    const float* row_scales = nullptr;  // the first output's
    int64_t depth = 0;
    RowKind kind = RowKind::floats;
    const float* x = nullptr;
    float* y = nullptr;
    int64_t y_stride = 0;
    bool accumulate = false;
};

// The weights are read once for every four rows. How a row's sum is rounded does not depend on other rows.
void compact_products(const CompactProducts& of, int64_t rows, int64_t outputs);

}  // namespace nanolith::cpu
