// Applies RMSNorm to each head of some rows; nl_rms_norm of nanolith_ops.h runs it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
