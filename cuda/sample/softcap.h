// Soft-capping of logits (Gemma Team, "Gemma 2", 2024).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// x[i] = cap * tanh(x[i] / cap).
Result<void> softcap(float* x, int64_t count, float cap, cudaStream_t stream);

}  // namespace nanolith::cuda
