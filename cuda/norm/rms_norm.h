// RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019) ahead of a product over many rows.
// For few rows the matrix-vector kernel normalises by itself.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"

namespace nanolith::cuda {

// to[i] = residual[r] / sqrt(mean(residual[r]^2) + epsilon) * weight, with r = row_index[i], or i where
// row_index is null: residual [*, hidden] float32, to [rows, hidden].
template <typename T>
Result<void> rms_norm(const float* residual, const int32_t* row_index, const T* weight, float epsilon, int rows,
                      int hidden, T* to, cudaStream_t stream);

}  // namespace nanolith::cuda
