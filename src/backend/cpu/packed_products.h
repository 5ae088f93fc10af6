// Products of many rows with a weight matrix that is repacked a tile at a time, as float32 (Goto and van de Geijn,
// Anatomy of High-Performance Matrix Multiplication).
#pragma once

#include <cstdint>

#include "base/convert.h"

namespace nanolith::cpu {

// Float32 numbers that a packed tile of weights [outputs, depth] takes at most.
int64_t packed_size(int64_t outputs, int64_t depth);

// Outputs of a panel: of a packed tile [depth][outputs of a panel] each, one after another, the last one filled up.
int64_t panel_outputs();

// Packs weights[n * stride + k], n < outputs, k < depth.
void pack(const float* weights, int64_t stride, int64_t outputs, int64_t depth, float* to);
void pack(const BFloat16* weights, int64_t stride, int64_t outputs, int64_t depth, float* to);

// A packed tile and the rows that it is multiplied by.
struct PackedProduct {
    const float* packed = nullptr;
    int64_t outputs = 0;
    int64_t depth = 0;
    const float* x = nullptr;  // rows of `depth` numbers, x_stride apart
    int64_t x_stride = 0;
    float* y = nullptr;  // rows of `outputs` numbers, y_stride apart
    int64_t y_stride = 0;
    bool accumulate = false;
};

// y[r][n] (+)= sum over k of x[r][k] * weights[n][k]. How a row's sum is rounded does not depend on other rows.
void packed_product(const PackedProduct& of, int64_t rows);

}  // namespace nanolith::cpu
