// Weights of files as float32, whatever their kind: for the backends, which convert them once.
#pragma once

#include <cstdint>

#include "backend/weight_view.h"

namespace nanolith {

// Number i of those at `data`, which need no alignment.
float number_at(DType dtype, const std::byte* data, int64_t i);

// Copies the elements [first, first + count) as they lie in the data, in its dtype.
void read_elements(const WeightView& weight, int64_t first, int64_t count, void* to);

// Where the weight's output `output` is stored: its row in the data.
int64_t stored_row(const WeightView& weight, int64_t output);

// to[i] = element first + i of the weight, row after row, in the order and with the scales of the view.
// [first, first + count) must lie in it.
void read_weight(const WeightView& weight, int64_t first, int64_t count, float* to);

}  // namespace nanolith
