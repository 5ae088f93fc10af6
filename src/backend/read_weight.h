// Weights of files as float32, whatever their kind: for the backends, which convert them once.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace nanolith {

// to[i] = element first + i of the weight, row after row, in the order and with the scales of the view.
// [first, first + count) must lie in it.
void read_weight(const WeightView& weight, int64_t first, int64_t count, float* to);

}  // namespace nanolith
