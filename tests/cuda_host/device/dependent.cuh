// Stands in for cuda/device/dependent.cuh: launches run one after the other.
#pragma once

namespace nanolith::cuda {

inline void wait_for_launches_before() {}

}  // namespace nanolith::cuda
