// Rows whose elements are put in another order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// to[r][i] = x[r][columns[i]]: x and to [rows, size], columns [size].
template <typename T>
Result<void> gather_columns(const T* x, const int32_t* columns, int rows, int size, T* to, cudaStream_t stream);

}  // namespace nanolith::cuda
