// Compact weights as numbers of the executor's type, for products that have no kernel of their own.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "compact/layout.h"

namespace nanolith::cuda {

// to [rows of the tiles, size] = the weights of tiles [first, first + count), where the matrix is gated first all rows
// of gate and then all of up. Rows beyond the matrix are zeros.
template <typename T>
Result<void> expand(const CompactMatrix& matrix, int first, int count, T* to, cudaStream_t stream);

}  // namespace nanolith::cuda
