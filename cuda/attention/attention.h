// Attention over segments of the paged KV cache, for decode and for prefill with history alike.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/items.h"
#include "attention/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

template <typename T>
struct AttentionArguments {
    const T* qkv = nullptr;              // [rows, num_heads + 2 * num_kv_heads, head_dim]; queries not rotated
    const T* pages = nullptr;            // [num_pages, 2, num_kv_heads, page_size, head_dim]
    const float* frequencies = nullptr;  // [head_dim / 2]
    const int32_t* positions = nullptr;  // [rows]
    const int32_t* page_table = nullptr;
    const Segment* segments = nullptr;
    const AttentionItem* items = nullptr;
    const MergeItem* merges = nullptr;
    float* partial_outputs = nullptr;  // [slots, num_kv_heads, tile_vectors, head_dim], not divided by their sums
    float2* partial_sums = nullptr;    // [slots, num_kv_heads, tile_vectors] base-2 maximum, and sum of weights
    T* output = nullptr;               // [rows, num_heads * head_dim]
    float scale = 0;                   // scores are q.k times this
};

struct AttentionLaunch {
    int num_items = 0;
    int num_merges = 0;  // 0: every item writes its output itself
    int tile_vectors = 0;
};

// output = softmax(scale * rotated(q) K^T) V over the segments of each sequence, with float32 sums.
template <typename T>
Result<void> attend(const AttentionArguments<T>& arguments, const HeadShape& shape, const AttentionLaunch& attention,
                    cudaStream_t stream);

}  // namespace nanolith::cuda
