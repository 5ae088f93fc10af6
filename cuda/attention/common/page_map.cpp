#include "attention/common/page_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

// The driver's cuTensorMapEncodeTiled. It is found at run time, so that the library does not link the driver.
struct TensorMapEncoder {
    PFN_cuTensorMapEncodeTiled_v12000 encode;
};

Result<TensorMapEncoder> tensor_map_encoder() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    NL_CUDA_TRY(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr) {
        return fail(NL_ERROR_DEVICE, "the CUDA driver has no cuTensorMapEncodeTiled: expected CUDA 12.0 or newer");
    }
    return TensorMapEncoder{reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)};
}

}  // namespace

Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              const PageBox& box) {
    NL_ASSIGN(const TensorMapEncoder encoder, tensor_map_encoder());
    const auto head_dim = static_cast<cuuint64_t>(shape.head_dim);
    const auto bytes = static_cast<cuuint64_t>(element_bytes);
    const cuuint64_t box_dims = 128 / bytes;  // elements of 128 bytes
    const cuuint64_t boxes_per_row = box.whole_heads ? head_dim / box_dims : 1;
    // The most rows that coordinates can name. The number of pages is not known here, but only pages of the pool are
    // ever read.
    constexpr cuuint64_t kMaxRows = cuuint64_t{1} << 31;
    const cuuint64_t sizes[4] = {box.whole_heads ? box_dims : head_dim, 8, boxes_per_row, kMaxRows / 8};
    const cuuint64_t strides[3] = {head_dim * bytes, 128, head_dim * 8 * bytes};
    const cuuint32_t extents[4] = {static_cast<cuuint32_t>(box_dims), 8, static_cast<cuuint32_t>(boxes_per_row),
                                   static_cast<cuuint32_t>(box.tokens / 8)};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult status = encoder.encode(&map, type, 4, const_cast<void*>(pages), sizes, strides, extents, steps,
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        return fail(NL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed with ", static_cast<int>(status), " for pages of ",
                    shape.page_size, " tokens and heads of ", shape.head_dim);
    }
    return map;
}

}  // namespace nanolith::cuda
