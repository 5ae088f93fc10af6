// The block's dynamic shared memory, 16-byte aligned; its size is set at the launch.
#pragma once

#include <cstddef>

namespace nanolith::cuda {

__device__ inline std::byte* dynamic_shared() {
    extern __shared__ uint4 nanolith_dynamic_shared[];
    return reinterpret_cast<std::byte*>(nanolith_dynamic_shared);
}

}  // namespace nanolith::cuda
