// Stands in for cuda/device/tma.cuh: copies at once.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "device/mbarrier.cuh"
#include "tensor_map.h"

namespace nanolith::cuda {

namespace emulated {

// Copies the map's box at element (at[0], at[1], at[2], at[3]), swizzled by 128 bytes.
inline void load_box(const CUtensorMap* map, void* to, uint64_t* barrier, const uint64_t (&at)[4]) {
    cuda_host::TensorMap tensor{};
    std::memcpy(&tensor, map, sizeof tensor);
    const auto address = reinterpret_cast<uintptr_t>(to);
    uint64_t line = 0;  // of 128 bytes, in the box
    for (uint64_t c = at[3]; c < at[3] + tensor.extents[3]; ++c) {
        for (uint64_t b = at[2]; b < at[2] + tensor.extents[2]; ++b) {
            for (uint64_t a = at[1]; a < at[1] + tensor.extents[1]; ++a, ++line) {
                const bool inside = a < tensor.sizes[1] && b < tensor.sizes[2] && c < tensor.sizes[3];
                const char* const from =
                    tensor.base + a * tensor.strides[0] + b * tensor.strides[1] + c * tensor.strides[2];
                const uintptr_t begin = address + line * 128;
                for (uint64_t i = 0; i < 64; ++i) {  // elements of two bytes
                    // Address bits 4 to 6 ^= bits 7 to 9.
                    const uintptr_t part = i / 8 ^ begin / 128 % 8;
                    auto* const element = reinterpret_cast<void*>(begin + part * 16 + i % 8 * 2);
                    if (inside && at[0] + i < tensor.sizes[0]) {
                        std::memcpy(element, from + (at[0] + i) * 2, 2);
                    } else {
                        std::memset(element, 0, 2);
                    }
                }
            }
        }
    }
    complete_bytes(barrier, line * 128);
}

}  // namespace emulated

inline void tma_load_4d(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y) {
    emulated::load_box(map, to, barrier, {static_cast<uint64_t>(x), 0, 0, static_cast<uint64_t>(y)});
}

inline void tma_load_upper(const CUtensorMap* map, void* to, uint64_t* barrier, int x, int y, int z) {
    emulated::load_box(map, to, barrier,
                       {0, static_cast<uint64_t>(x), static_cast<uint64_t>(y), static_cast<uint64_t>(z)});
}

inline void tma_prefetch_map(const CUtensorMap*) {}

inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
    std::memcpy(to, from, bytes);
    emulated::complete_bytes(barrier, bytes);
}

}  // namespace nanolith::cuda
