// The CUDA side of nl_attention_plan.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "attention/device_attention.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// The device that the functions of nanolith_ops.h run on.
struct OpsDevice {
    int index = 0;
    GpuFacts gpu;
    cudaStream_t stream = nullptr;  // the caller's, as nl_ops_set_stream set it
};

// Makes the plan of nl_attention_plan. `device` outlives it, and its stream may change between calls.
Result<std::unique_ptr<PagedAttention>> create_paged_attention(const OpsDevice& device, const AttentionSpec& spec,
                                                               const PlanCapacity& capacity);

}  // namespace nanolith::cuda
