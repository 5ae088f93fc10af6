// Stands in for cuda/device/dynamic_shared.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.h"

namespace nanolith::cuda {

inline std::byte* dynamic_shared() {
    return cuda_host::shared_memory();
}

inline std::byte* dynamic_shared_1024() {
    std::byte* const begin = dynamic_shared();
    return begin + (1024 - reinterpret_cast<uintptr_t>(begin) % 1024) % 1024;
}

}  // namespace nanolith::cuda
