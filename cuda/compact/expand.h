// Compact weights as numbers of the executor's type, for products that have no kernel of their own.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"

namespace nanolith::cuda {

// to [rows, size] = the weights of tiles [first, first + count), without rows beyond the matrix; where it is gated,
// first all rows of gate and then all of up. The same of the next `matrices` - 1 matrices, each matrix.bytes() behind
// the one before.
template <typename T>
Result<void> expand(const CompactMatrix& matrix, int first, int count, T* to, cudaStream_t stream, int matrices = 1);

}  // namespace nanolith::cuda
