// RMSNorm of rows of heads: nl_rms_norm of nanolith_ops.h.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
