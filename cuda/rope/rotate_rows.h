// Applies rotary position embeddings (RoPE) to the heads of some rows; nl_rope of nanolith_ops.h runs it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/kernels.h"

namespace nanolith::cuda {

Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
