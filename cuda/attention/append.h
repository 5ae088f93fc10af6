// From the QKV product to the KV pages.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/shape.h"
#include "base/result.h"
#include "norm/norm.h"

namespace nanolith::cuda {

template <typename T>
struct AppendArguments {
    T* qkv = nullptr;         // [rows, num_heads + 2 * num_kv_heads, head_dim]
    const T* bias = nullptr;  // [num_heads + 2 * num_kv_heads, head_dim] or null
    Norm q_norm;              // of [head_dim], or none
    Norm k_norm;
    const float* frequencies = nullptr;      // [head_dim / 2]
    const float* magnitudes = nullptr;       // [head_dim / 2] or null: all 1
    const int32_t* key_positions = nullptr;  // [rows]
    const int32_t* slots = nullptr;          // [rows]
    T* pages = nullptr;                      // [num_pages, 2, num_kv_heads, page_size, head_dim]
};

// Adds the bias; normalises queries and keys; rotates the keys for key_positions and writes them and the values to
// their slots. The queries stay in qkv, not rotated: attention rotates them for each segment.
template <typename T>
Result<void> append_to_pages(const AppendArguments<T>& arguments, const HeadShape& shape, int rows,
                             cudaStream_t stream);

}  // namespace nanolith::cuda
