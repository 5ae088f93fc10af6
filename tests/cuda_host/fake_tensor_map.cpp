// Stands in for cuda/runtime/tensor_map.cpp. It refuses what the driver would refuse.
#include <algorithm>
#include <cstring>

#include "runtime/tensor_map.h"
#include "tensor_map.h"

namespace nanolith::cuda {

Result<CUtensorMap> make_tensor_map(const void* base, const TensorBox& box, const char* what) {
    const auto is_aligned = [](uint64_t bytes) { return bytes % 16 == 0; };
    const bool valid = is_aligned(reinterpret_cast<uintptr_t>(base)) && std::ranges::all_of(box.strides, is_aligned) &&
                       box.extents[0] * 2 == 128 &&
                       std::ranges::all_of(box.extents, [](uint32_t extent) { return extent > 0 && extent <= 256; });
    if (!valid) return fail(NL_ERROR_DEVICE, "the emulation refuses a tensor map for ", what);
    cuda_host::TensorMap tensor{};
    tensor.base = static_cast<const char*>(base);
    std::ranges::copy(box.sizes, tensor.sizes);
    std::ranges::copy(box.strides, tensor.strides);
    std::ranges::copy(box.extents, tensor.extents);
    CUtensorMap map{};
    std::memcpy(&map, &tensor, sizeof tensor);
    return map;
}

}  // namespace nanolith::cuda
