// Merging of partial results that the caller of nanolith_ops.h has in tensors of its own.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> merge_rows(const MergeArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
