// Starts a variant of the kernel in wide_kernel.cuh.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "attention/page_map.h"
#include "attention/wide_kernel.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda::wide {

template <typename T>
constexpr CUtensorMapDataType kTensorMapType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
inline constexpr CUtensorMapDataType kTensorMapType<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// The pool as rows of head_dim values, in eights; copied in boxes of min(page_size, 64) rows, whole where head_dim is a
// multiple of 64 and 64 values of each otherwise. In a box come 64 values of each of 8 rows, the next 64 values of
// these, the next 8 rows. The number of rows is the most that there can be: only pages that the page table names are
// read.
template <typename T>
Result<CUtensorMap> pool_map(const T* pages, const HeadShape& shape) {
    NL_ASSIGN(const TensorMapEncoder encoder, tensor_map_encoder());
    const auto head_dim = static_cast<cuuint64_t>(shape.head_dim);
    const bool whole = head_dim % 64 == 0;
    const cuuint64_t blocks = whole ? head_dim / 64 : 1;
    constexpr cuuint64_t kMaxRows = cuuint64_t{1} << 31;
    const cuuint64_t sizes[4] = {whole ? 64 : head_dim, 8, blocks, kMaxRows / 8};
    const cuuint64_t strides[3] = {head_dim * sizeof(T), 64 * sizeof(T), head_dim * 8 * sizeof(T)};
    const cuuint32_t box[4] = {64, 8, static_cast<cuuint32_t>(blocks),
                               static_cast<cuuint32_t>(std::min(shape.page_size, 64) / 8)};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult status = encoder.encode(&map, kTensorMapType<T>, 4, const_cast<T*>(pages), sizes, strides, box,
                                           steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        return fail(NL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed with ", static_cast<int>(status));
    }
    return map;
}

template <typename V>
Result<void> start(const AttentionArguments<typename V::T>& arguments, const HeadShape& shape, int num_items,
                   int32_t* counters, cudaStream_t stream) {
    using T = typename V::T;
    if (num_items == 0) return {};
    NL_ASSIGN(const CUtensorMap map, pool_map(static_cast<const T*>(arguments.pages), shape));
    constexpr float kLog2E = 1.44269504088896341F;
    Parameters<T> parameters;
    parameters.a = arguments;
    parameters.shape = shape;
    if (arguments.window <= 0) parameters.a.window = 1 << 30;  // sees all
    parameters.num_items = num_items;
    parameters.counters = counters;
    parameters.group = shape.num_heads / shape.num_kv_heads;
    parameters.page_shift = std::countr_zero(static_cast<unsigned>(shape.page_size));
    // The scale's sign, and a scale of 0, go with the queries.
    parameters.query_sign = arguments.scale > 0 ? 1 : arguments.scale < 0 ? -1 : 0;
    const float scale = arguments.scale == 0 ? 1.0F : std::fabs(arguments.scale);
    if (V::kSoftCap) {
        parameters.score_scale = scale / arguments.softcap;
        parameters.cap_scale = arguments.softcap * kLog2E;
    } else {
        parameters.score_scale = scale * kLog2E;
    }
    int device = 0;
    int multiprocessors = 0;
    NL_CUDA_TRY(cudaGetDevice(&device));
    NL_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int blocks = std::min(multiprocessors / V::kCluster, num_items * shape.num_kv_heads) * V::kCluster;
    return launch(attention_kernel<V>, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads), sizeof(Shared<V>)}, stream,
                  map, parameters);
}

}  // namespace nanolith::cuda::wide
