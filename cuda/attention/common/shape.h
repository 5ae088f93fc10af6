// The shapes that every attention kernel needs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nanolith::cuda {

struct HeadShape {
    int num_heads = 0;  // query heads
    int num_kv_heads = 0;
    int head_dim = 0;
    int page_size = 0;

    [[nodiscard]] __host__ __device__ int qkv_size() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
    [[nodiscard]] __host__ __device__ int64_t page_elements() const {
        return int64_t{2} * num_kv_heads * page_size * head_dim;
    }
};

}  // namespace nanolith::cuda
