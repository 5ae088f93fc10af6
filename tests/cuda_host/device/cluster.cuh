// Stands in for cuda/device/cluster.cuh: the blocks of a cluster are fibers of one CPU thread (block.h).
#pragma once

#include <cstddef>

#include "block.h"

namespace nanolith::cuda {

inline int cluster_rank() {
    return static_cast<int>(cuda_host::cluster_rank());
}

inline int cluster_index() {
    return static_cast<int>(cuda_host::cluster_index());
}

template <typename T>
T* in_block(T* shared, int rank) {
    return reinterpret_cast<T*>(
        cuda_host::in_block(reinterpret_cast<const std::byte*>(shared), static_cast<unsigned>(rank)));
}

inline float4 load_from_block(const float* shared, int rank) {
    return *reinterpret_cast<const float4*>(in_block(shared, rank));
}

inline void cluster_arrive() {
    cuda_host::arrive_at_cluster();
}
inline void cluster_arrive_after_reading() {
    cuda_host::arrive_at_cluster();
}
inline void cluster_wait() {
    cuda_host::wait_for_cluster();
}

}  // namespace nanolith::cuda
