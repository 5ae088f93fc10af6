// Stands in for cuda/device/dynamic_shared.cuh.
#pragma once

#include <cstddef>

#include "block.h"

namespace nanolith::cuda {

inline std::byte* dynamic_shared() {
    return cuda_host::shared_memory();
}

}  // namespace nanolith::cuda
