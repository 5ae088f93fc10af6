// The gate of the MLP after a product over many rows. For few rows the matrix-vector kernel does it by itself.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"

namespace nanolith::cuda {

// to[r][i] = silu(gate_up[r][i]) * gate_up[r][size + i], silu(x) = x / (1 + exp(-x)):
// gate_up [rows, 2 * size], to [rows, size].
template <typename T>
Result<void> silu_mul(const T* gate_up, int rows, int size, T* to, cudaStream_t stream);

}  // namespace nanolith::cuda
