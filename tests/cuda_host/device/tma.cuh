// Stands in for cuda/device/tma.cuh: copies at once.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "tensor_map.h"

namespace nanolith::cuda {

inline void tma_load_upper(const CUtensorMap* map, void* to, uint64_t*, int x, int y, int z) {
    cuda_host::TensorMap tensor{};
    std::memcpy(&tensor, map, sizeof tensor);
    const auto address = reinterpret_cast<uintptr_t>(to);
    uint64_t line = 0;  // of 128 bytes, in the box
    for (uint64_t c = 0; c < tensor.extents[3]; ++c) {
        for (uint64_t b = 0; b < tensor.extents[2]; ++b) {
            for (uint64_t a = 0; a < tensor.extents[1]; ++a, ++line) {
                const uint64_t at[3] = {static_cast<uint64_t>(x) + a, static_cast<uint64_t>(y) + b,
                                        static_cast<uint64_t>(z) + c};
                const bool inside = at[0] < tensor.sizes[1] && at[1] < tensor.sizes[2] && at[2] < tensor.sizes[3];
                const char* const from =
                    tensor.base + at[0] * tensor.strides[0] + at[1] * tensor.strides[1] + at[2] * tensor.strides[2];
                const uintptr_t begin = address + line * 128;
                for (uintptr_t part = 0; part < 8; ++part) {  // the swizzle: address bits 4 to 6 ^= bits 7 to 9
                    auto* const part_to = reinterpret_cast<void*>(begin + (part ^ begin / 128 % 8) * 16);
                    if (inside) {
                        std::memcpy(part_to, from + part * 16, 16);
                    } else {
                        std::memset(part_to, 0, 16);
                    }
                }
            }
        }
    }
}

inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t*) {
    std::memcpy(to, from, bytes);
}

}  // namespace nanolith::cuda
