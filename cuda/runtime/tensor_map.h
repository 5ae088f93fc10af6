// Tensor maps: how the tensor copy engine of Hopper (TMA) finds a box of a tensor in device memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// A tensor of four dimensions, the innermost first, and the box of it that one copy takes. The innermost extent of the
// box is 128 bytes; in shared memory the box is dense, and its 16-byte parts are swizzled by 128 bytes.
struct TensorBox {
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    uint64_t sizes[4] = {};
    uint64_t strides[3] = {};  // bytes from one index to the next, of all dimensions but the innermost; multiples of 16
    uint32_t extents[4] = {};  // of the box
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
};

// The map of the tensor at `base` on the device, which is 16-byte aligned. Elements of a box outside the tensor become
// zeros. Fails with NL_ERROR_DEVICE where the driver has no tensor maps or refuses this one; `what` names the tensor.
Result<CUtensorMap> make_tensor_map(const void* base, const TensorBox& box, const char* what);

}  // namespace nanolith::cuda
