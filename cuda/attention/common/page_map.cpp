#include "attention/common/page_map.h"

#include "runtime/tensor_map.h"

namespace nanolith::cuda {

Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              const PageBox& box) {
    const auto head_dim = static_cast<uint64_t>(shape.head_dim);
    const auto bytes = static_cast<uint64_t>(element_bytes);
    const uint64_t box_dims = 128 / bytes;  // elements of 128 bytes
    const uint64_t boxes_per_row = box.whole_heads ? head_dim / box_dims : 1;
    // The most rows that coordinates can name. The number of pages is not known here, but only pages of the pool are
    // ever read.
    constexpr uint64_t kMaxRows = uint64_t{1} << 31;
    const TensorBox tensor{
        .type = type,
        .sizes = {box.whole_heads ? box_dims : head_dim, 8, boxes_per_row, kMaxRows / 8},
        .strides = {head_dim * bytes, 128, head_dim * 8 * bytes},
        .extents = {static_cast<uint32_t>(box_dims), 8, static_cast<uint32_t>(boxes_per_row),
                    static_cast<uint32_t>(box.tokens / 8)},
        .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    };
    return make_tensor_map(pages, tensor, "a page pool");
}

}  // namespace nanolith::cuda
