// Starts a variant of the kernel in wide_kernel.cuh.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <bit>

#include "attention/wide_kernel.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda::wide {

// The driver's cuTensorMapEncodeTiled, without linking the driver.
struct TensorMapEncoder {
    PFN_cuTensorMapEncodeTiled_v12000 encode;
};

inline Result<TensorMapEncoder> tensor_map_encoder() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    NL_CUDA_TRY(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr) {
        return fail(NL_ERROR_DEVICE, "the CUDA driver has no cuTensorMapEncodeTiled; expected CUDA 12.0 or newer");
    }
    return TensorMapEncoder{reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)};
}

template <typename T>
constexpr CUtensorMapDataType kTensorMapType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
inline constexpr CUtensorMapDataType kTensorMapType<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// The pool as rows of head_dim values, copied in boxes of min(page_size, 64) rows and 64 values.
template <typename T>
Result<CUtensorMap> pool_map(const T* pages, int64_t num_pages, const HeadShape& shape) {
    NL_ASSIGN(const TensorMapEncoder encoder, tensor_map_encoder());
    const auto rows = static_cast<cuuint64_t>(num_pages * 2 * shape.num_kv_heads * shape.page_size);
    const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(shape.head_dim), rows};
    const cuuint64_t strides[1] = {static_cast<cuuint64_t>(shape.head_dim) * sizeof(T)};
    const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(std::min(shape.page_size, 64))};
    const cuuint32_t steps[2] = {1, 1};
    CUtensorMap map;
    const CUresult status = encoder.encode(&map, kTensorMapType<T>, 2, const_cast<T*>(pages), sizes, strides, box,
                                           steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        return fail(NL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed with ", static_cast<int>(status), " for a pool of ",
                    num_pages, " pages");
    }
    return map;
}

template <typename V>
Result<void> start(const WideArguments<typename V::T>& arguments, cudaStream_t stream) {
    if (arguments.num_items == 0) return {};
    NL_ASSIGN(const CUtensorMap map, pool_map(arguments.pages, arguments.num_pages, arguments.shape));
    constexpr float kLog2E = 1.44269504088896341F;
    Parameters<typename V::T> parameters;
    parameters.a = arguments;
    parameters.group = arguments.shape.num_heads / arguments.shape.num_kv_heads;
    parameters.page_shift = std::countr_zero(static_cast<unsigned>(arguments.shape.page_size));
    if (V::kSoftCap) {
        parameters.score_scale = arguments.scale / arguments.soft_cap;
        parameters.cap_scale = arguments.soft_cap * kLog2E;
    } else {
        parameters.score_scale = arguments.scale * kLog2E;
    }
    if (arguments.kv_heads_at_once == 0) parameters.a.kv_heads_at_once = arguments.shape.num_kv_heads;
    int device = 0;
    int multiprocessors = 0;
    NL_CUDA_TRY(cudaGetDevice(&device));
    NL_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int blocks = std::min(multiprocessors, arguments.num_items * arguments.shape.num_kv_heads);
    return launch(attention_kernel<V>, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads), sizeof(Shared<V>)}, stream,
                  map, parameters);
}

}  // namespace nanolith::cuda::wide
