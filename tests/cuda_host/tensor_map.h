// What the emulation keeps in a CUtensorMap.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cuda_host {

struct TensorMap {
    const char* base;
    uint64_t sizes[4];
    uint64_t strides[3];
    uint64_t extents[4];
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

}  // namespace cuda_host
