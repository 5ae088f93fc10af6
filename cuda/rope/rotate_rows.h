// Rotation of rows of heads: nl_rope of nanolith_ops.h.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
