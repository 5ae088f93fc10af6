// The gate of the MLP after a product. For few rows without a bias the matrix-vector kernel does it by itself.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "base/result.h"

namespace nanolith::cuda {

// to[r][i] = activation(gate_up[r][i] + bias[i]) * (gate_up[r][size + i] + bias[size + i]): gate_up [rows, 2 * size],
// bias [2 * size] or null, to [rows, size]. `early`: the launch may begin while the previous launch of the stream still
// runs.
template <typename T>
Result<void> gate(const T* gate_up, const T* bias, Activation activation, int rows, int size, T* to, bool early,
                  cudaStream_t stream);

}  // namespace nanolith::cuda
