// Partial sums that the thread blocks of a cluster have in shared memory, added up.
#pragma once

#include "device/cluster.cuh"

namespace nanolith::cuda {

// Adds up four adjacent partial sums over the cluster's `blocks` thread blocks, at most kMost, in the order of the
// blocks. `at`: where the calling one has its own, 16-byte aligned; the others have theirs at the same place of their
// shared memory. All are loaded before the first is added, so that the loads overlap.
template <int kMost>
__device__ float4 cluster_sum(const float* at, int blocks) {
    float4 parts[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
        if (i < blocks) parts[i] = load_from_block(at, i);
    }
    float4 sums = parts[0];
#pragma unroll
    for (int i = 1; i < kMost; ++i) {
        if (i >= blocks) break;
        sums = {sums.x + parts[i].x, sums.y + parts[i].y, sums.z + parts[i].z, sums.w + parts[i].w};
    }
    return sums;
}

}  // namespace nanolith::cuda
