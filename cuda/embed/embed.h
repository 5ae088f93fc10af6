// Token embedding.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"

namespace nanolith::cuda {

// residual[row] = factor * table[tokens[row]] as float32: table [vocab, hidden], residual [rows, hidden].
template <typename T>
Result<void> embed(const T* table, const int32_t* tokens, float factor, int rows, int hidden, float* residual,
                   cudaStream_t stream);

}  // namespace nanolith::cuda
