// Append and attention of few rows with short contexts in one launch on Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/attention.h"
#include "attention/common/projected_rows.h"
#include "attention/common/shape.h"
#include "attention/plan/short_work.h"
#include "base/result.h"
#include "runtime/row_layout.h"

namespace nanolith::cuda {

template <typename T>
struct ShortArguments {
    const T* queries = nullptr;  // [rows, num_heads, head_dim]
    RowLayout query_layout;
    ProjectedRows<T> projected;
    const float2* rope = nullptr;  // [max_position, head_dim / 2] cosine and sine; null: no rotation
    T* pages = nullptr;            // [num_pages, 2, num_kv_heads, page_size, head_dim]
    ShortView work;
    T* output = nullptr;
    RowLayout output_layout;
    AttentionRule rule;
};

// Whether a device of compute capability `major`.x has the kernel.
bool short_supports(int major);

// Adds the bias to queries, keys and values; normalises queries and keys; rotates the keys for their positions and
// writes them and the values to their slots; then output = softmax(scale * rotated(q) K^T) V for every row of the plan.
// The launch may be `early`: then it reads the plan, and what the pages held before this step, before the launches
// before it have ended.
template <typename T>
Result<void> attend_short(const ShortArguments<T>& arguments, const HeadShape& shape, const ShortCounts& counts,
                          bool early, cudaStream_t stream);

}  // namespace nanolith::cuda
