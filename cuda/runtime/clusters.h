// How many clusters of thread blocks (device/cluster.cuh) the GPU runs at the same time.
#pragma once

#include <array>

#include "base/result.h"

namespace nanolith::cuda {

// The largest cluster that every GPU with clusters runs.
constexpr int kMostClusterBlocks = 8;

// most[n]: how many clusters of n thread blocks run at the same time. All are 0 where the kernel can't run.
struct ClustersAtOnce {
    std::array<int, kMostClusterBlocks + 1> most = {};
};

// Of thread blocks of `kernel` that have so many threads and bytes of dynamic shared memory. The kernel is one that
// uses warpgroups' products, which only code for sm_90a may: a build without such code has it too, but empty, and finds
// no clusters.
Result<ClustersAtOnce> find_clusters(const void* kernel, int threads, int shared_bytes);

}  // namespace nanolith::cuda
