// Stands in for cuda/device/dependent.cuh: launches run one after the other.
#pragma once

namespace nanolith::cuda {

inline void wait_for_launches_before() {}
inline void let_next_launch_begin() {}

}  // namespace nanolith::cuda
