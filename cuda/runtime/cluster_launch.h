// Starting a kernel whose blocks form clusters (device/cluster.cuh), checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "base/result.h"
#include "runtime/check.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

// As launch(). `blocks` that follow each other along the grid's x form a cluster; at most 8.
template <typename... Parameters>
Result<void> launch_cluster(void (*kernel)(Parameters...), const LaunchShape& shape, int blocks, cudaStream_t stream,
                            std::type_identity_t<Parameters>... arguments) {
    const void* const function = reinterpret_cast<const void*>(kernel);
    NL_CUDA_TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shape.shared_bytes)));
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = shape.early ? 1 : 0;
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    void* pointers[] = {static_cast<void*>(&arguments)...};
    NL_CUDA_TRY(cudaLaunchKernelExC(&config, function, pointers));
    return {};
}

}  // namespace nanolith::cuda
