#include "attention/page_map.h"

#include <cuda_runtime_api.h>

#include "runtime/check.h"

namespace nanolith::cuda {

Result<TensorMapEncoder> tensor_map_encoder() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    NL_CUDA_TRY(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr) {
        return fail(NL_ERROR_DEVICE, "the CUDA driver has no cuTensorMapEncodeTiled; expected CUDA 12.0 or newer");
    }
    return TensorMapEncoder{reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)};
}

Result<CUtensorMap> map_pages(const void* pages, CUtensorMapDataType type, int element_bytes, const HeadShape& shape,
                              int box_tokens) {
    NL_ASSIGN(const TensorMapEncoder encoder, tensor_map_encoder());
    // As many rows as coordinates can name: how many pages there are is not known here, and no others are read.
    const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(shape.head_dim), cuuint64_t{1} << 31};
    const cuuint64_t strides[1] = {static_cast<cuuint64_t>(shape.head_dim) * static_cast<cuuint64_t>(element_bytes)};
    const cuuint32_t box[2] = {static_cast<cuuint32_t>(128 / element_bytes), static_cast<cuuint32_t>(box_tokens)};
    const cuuint32_t steps[2] = {1, 1};
    CUtensorMap map;
    const CUresult status = encoder.encode(&map, type, 2, const_cast<void*>(pages), sizes, strides, box, steps,
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        return fail(NL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed with ", static_cast<int>(status), " for pages of ",
                    shape.page_size, " tokens and heads of ", shape.head_dim);
    }
    return map;
}

}  // namespace nanolith::cuda
