// Attention of many query vectors over segments of the paged KV cache on Hopper's matrix units: prefill with history,
// and shared segments that many rows of a decode batch read at once. See work.h for the work list.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention/shape.h"
#include "attention/work.h"
#include "base/result.h"

namespace nanolith::cuda {

// Query vectors of a full item.
constexpr int kWideVectors = 128;

// Device pointers, aligned to 16 bytes; strides in elements, those of queries multiples of 8 and of output even.
template <typename T>
struct WideArguments {
    HeadShape shape;
    const T* queries = nullptr;  // [rows][num_heads][head_dim]; not rotated where `rope` is given
    int64_t query_row_stride = 0;
    int64_t query_head_stride = 0;
    const T* pages = nullptr;  // [num_pages, 2, num_kv_heads, page_size, head_dim]
    int64_t num_pages = 0;
    const float2* rope = nullptr;  // [positions, head_dim / 2] cosine and sine; null: queries are used as they are
    const int32_t* positions = nullptr;  // [rows]
    const int32_t* page_table = nullptr;
    const QueryRow* rows = nullptr;
    const Span* spans = nullptr;
    const AttentionItem* items = nullptr;  // longest first; those without vectors are no work
    int num_items = 0;
    int kv_heads_at_once = 0;     // a divisor of num_kv_heads whose K and V stay in L2; 0: all
    int32_t* counters = nullptr;  // 2, zeros between launches
    T* output = nullptr;          // [rows][num_heads][head_dim]
    int64_t output_row_stride = 0;
    int64_t output_head_stride = 0;
    float* lse = nullptr;              // [rows, num_heads] natural logarithm of the sum of exponentials, or null
    float* partial_outputs = nullptr;  // [num_kv_heads][num_partial_vectors][head_dim], divided by their sums
    float* partial_lse = nullptr;      // [num_kv_heads][num_partial_vectors] base 2; -inf: saw nothing
    int64_t num_partial_vectors = 0;
    float scale = 0;     // of the scores, above 0
    bool causal = true;  // false: every row sees all tokens of its spans
    int window = 0;      // above 0: a row at p sees tokens t > p - window only
    float soft_cap = 0;  // above 0: scores s become soft_cap * tanh(s / soft_cap)
};

// Whether the current device and this shape can use attend_wide.
bool wide_takes(const HeadShape& shape, int major);

// Puts the kernel on `stream`. Pointers and strides are the caller's to have checked.
template <typename T>
Result<void> attend_wide(const WideArguments<T>& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
