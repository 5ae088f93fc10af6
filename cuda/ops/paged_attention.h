// The CUDA side of nl_attention_plan.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "attention/device_attention.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// A device as the kernels of nanolith_ops.h use it.
struct OpsDevice {
    int index = 0;
    GpuFacts gpu;
    cudaStream_t stream = nullptr;  // the caller's
};

// `device` outlives the plan.
Result<std::unique_ptr<PagedAttention>> create_paged_attention(const OpsDevice& device, const AttentionSpec& spec,
                                                               const PlanCapacity& capacity);

}  // namespace nanolith::cuda
