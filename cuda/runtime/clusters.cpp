#include "runtime/clusters.h"

#include <cuda_runtime_api.h>

#include "runtime/check.h"

namespace nanolith::cuda {

Result<ClustersAtOnce> find_clusters(const void* kernel, int threads, int shared_bytes) {
    constexpr int kRegistersOfEmptyKernel = 16;  // at most; kernels that multiply take 40 and more
    ClustersAtOnce clusters;
    cudaFuncAttributes attributes{};
    NL_CUDA_TRY(cudaFuncGetAttributes(&attributes, kernel));
    if (attributes.numRegs <= kRegistersOfEmptyKernel) return clusters;
    NL_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    for (int blocks = 1; blocks <= kMostClusterBlocks; ++blocks) {
        cudaLaunchAttribute size{};
        size.id = cudaLaunchAttributeClusterDimension;
        size.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(static_cast<unsigned>(blocks));
        config.blockDim = dim3(static_cast<unsigned>(threads));
        config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
        config.attrs = &size;
        config.numAttrs = 1;
        NL_CUDA_TRY(cudaOccupancyMaxActiveClusters(&clusters.most[static_cast<size_t>(blocks)], kernel, &config));
    }
    return clusters;
}

}  // namespace nanolith::cuda
