// The block's dynamic shared memory, 16-byte aligned; its size is set at the launch.
#pragma once

#include <cstddef>

namespace nanolith::cuda {

__device__ inline std::byte* dynamic_shared() {
    extern __shared__ uint4 nanolith_dynamic_shared[];
    return reinterpret_cast<std::byte*>(nanolith_dynamic_shared);
}

// From its first multiple of 1024 bytes on, as the copy engine's swizzle wants it: 1024 bytes more must be asked for.
__device__ inline std::byte* dynamic_shared_1024() {
    std::byte* const begin = dynamic_shared();
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(begin));
    return begin + ((1024U - address % 1024U) % 1024U);
}

}  // namespace nanolith::cuda
