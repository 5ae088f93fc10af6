// Launches a variant of the kernel in wide/kernel.cuh.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <bit>

#include "attention/common/page_map.h"
#include "attention/wide/kernel.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda::wide {

template <typename T>
constexpr CUtensorMapDataType kTensorMapType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
inline constexpr CUtensorMapDataType kTensorMapType<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

template <typename V>
Result<void> start(const AttentionArguments<typename V::T>& arguments, const HeadShape& shape, int num_items,
                   int32_t* counters, bool early, cudaStream_t stream) {
    using T = typename V::T;
    if (num_items == 0) return {};
    const PageBox box{std::min(shape.page_size, 64), shape.head_dim % 64 == 0};
    NL_ASSIGN(const CUtensorMap map, map_pages(arguments.pages, kTensorMapType<T>, sizeof(T), shape, box));
    Parameters<T> parameters;
    parameters.a = arguments;
    parameters.shape = shape;
    parameters.rule = fold(arguments.rule);
    if (arguments.rule.window <= 0) parameters.a.rule.window = 1 << 30;  // no limit
    parameters.num_items = num_items;
    parameters.counters = counters;
    parameters.heads_per_kv = shape.num_heads / shape.num_kv_heads;
    parameters.page_shift = std::countr_zero(static_cast<unsigned>(shape.page_size));
    int device = 0;
    int multiprocessors = 0;
    NL_CUDA_TRY(cudaGetDevice(&device));
    NL_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int blocks = std::min(multiprocessors / V::kCluster, num_items * shape.num_kv_heads) * V::kCluster;
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads), sizeof(Shared<V>), early};
    return launch(attention_kernel<V>, launch_shape, stream, map, parameters);
}

}  // namespace nanolith::cuda::wide
