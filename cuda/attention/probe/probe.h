// How much the rows of a probed sequence attend to each token that they see (Probe in backend/batch.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/attention.h"
#include "attention/common/shape.h"
#include "base/result.h"
#include "runtime/row_layout.h"

namespace nanolith::cuda {

// Tokens [first_token, end_token) of a segment, which lie in one page, and the segment's base. The weight of the first
// of them is number `first_weight` of its probe's.
struct ProbePage {
    int32_t page;
    int32_t first_token;
    int32_t end_token;
    int32_t base;
    int32_t first_weight;
};

// One layer. The rows [first_row, first_row + num_rows) have consecutive positions.
template <typename T>
struct ProbeArguments {
    const T* queries = nullptr;  // not rotated
    RowLayout query_layout;
    const void* pages = nullptr;        // as AttentionArguments::pages
    bool fp8 = false;                   // pages are fp8 e4m3 and not of T
    const float2* rope = nullptr;       // as AttentionArguments::rope
    const ProbePage* probed = nullptr;  // [num_pages], memory that the device reads
    int num_pages = 0;
    int num_tokens = 0;  // in these pages
    int first_row = 0;
    int num_rows = 0;
    int first_position = 0;
    AttentionRule rule;
    float* lse = nullptr;      // scratch: [num_pages, num_kv_heads, num_rows * query heads of a KV head]
    float* totals = nullptr;   // scratch: [num_kv_heads, num_rows * query heads of a KV head]
    float* shares = nullptr;   // scratch: [num_kv_heads, num_tokens]
    float* weights = nullptr;  // [num_tokens]: to each is added the sum of the token's softmax weights
};

// The order of all sums follows from the arguments alone.
template <typename T>
Result<void> add_token_weights(const ProbeArguments<T>& arguments, const HeadShape& shape, cudaStream_t stream);

}  // namespace nanolith::cuda
