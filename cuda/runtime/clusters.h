// How many clusters of thread blocks (device/cluster.cuh) the GPU runs at the same time.
#pragma once

#include <array>

#include "base/result.h"

namespace nanolith::cuda {

// The largest cluster that every GPU with clusters runs.
constexpr int kMostClusterBlocks = 8;

// The most clusters of a kernel that the GPU can run at the same time, by their size: most[n] is for clusters of n
// thread blocks, 1 to kMostClusterBlocks, and most[0] is not used. All are 0 if the GPU can't run the kernel.
struct ClustersAtOnce {
    std::array<int, kMostClusterBlocks + 1> most = {};
};

// Asks CUDA how many clusters of `kernel` run at the same time, if a thread block has `threads` threads and
// `shared_bytes` bytes of dynamic shared memory. `kernel` must be one that uses wgmma. Only code for sm_90a may do
// that, and in a build without such code the kernel is empty; then all are 0.
Result<ClustersAtOnce> find_clusters(const void* kernel, int threads, int shared_bytes);

}  // namespace nanolith::cuda
