#include "runtime/tensor_map.h"

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

Result<CUtensorMap> make_tensor_map(const void* base, const TensorBox& box, const char* what) {
    NL_ASSIGN(const TensorMapEncoder encoder, tensor_map_encoder());
    constexpr cuuint32_t kSteps[4] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult status = encoder.encode(
        &map, box.type, 4, const_cast<void*>(base), box.sizes, box.strides, box.extents, kSteps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, box.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        return fail(NL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed with ", static_cast<int>(status), " for ", what);
    }
    return map;
}

}  // namespace nanolith::cuda
