// The kernels on rows of heads behind nanolith_ops.h: merge, norm and rotation.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> merge_rows(const MergeArguments& arguments, cudaStream_t stream);
Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream);
Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
