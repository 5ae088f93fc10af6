// RMSNorm ahead of a product over many rows. For few rows the matrix-vector kernel normalises by itself.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "norm/norm.h"

namespace nanolith::cuda {

// `early`, in both functions: the launch may begin while the previous launch of the stream still runs.

// to[i] = norm(residual[r]) with r = row_index[i], or i where row_index is null: residual [*, hidden] float32,
// to [rows, hidden].
template <typename T>
Result<void> rms_norm(const float* residual, const int32_t* row_index, const Norm& norm, int rows, int hidden, T* to,
                      bool early, cudaStream_t stream);

// residual[i] += norm(x[i] + bias), without the norm or the bias where they are null: x and residual [rows, hidden]
// float32, bias [hidden].
template <typename T>
Result<void> add_normed(const float* x, const T* bias, const Norm& norm, int rows, int hidden, float* residual,
                        bool early, cudaStream_t stream);

}  // namespace nanolith::cuda
