// Stands in for cuda/device/prefetch.cuh.
#pragma once

namespace nanolith::cuda {

inline void prefetch(const void*) {}

}  // namespace nanolith::cuda
