// The kernels on rows of heads behind nanolith_ops.h: append to pages, merge, norm and rotation.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/attention.h"
#include "attention/shape.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

template <typename Data>
RowLayout layout_of(const HeadRows<Data>& rows) {
    if (rows.rows_per_block == INT32_MAX) return {rows.row_stride, rows.head_stride};
    return {rows.row_stride, rows.head_stride, rows.block_stride, rows.rows_per_block};
}

struct AppendRows {
    ConstHeadRows k;
    ConstHeadRows v;
    Pages<void> pages;
    const int32_t* slots = nullptr;          // [rows]; kNoSlot: nothing is read or written
    const int32_t* key_positions = nullptr;  // [rows]; used with rope alone
    const float2* rope = nullptr;            // [max_position, head_dim / 2], or null
    int rows = 0;
    DType dtype = DType::bf16;
    DType kv_dtype = DType::bf16;
};

Result<void> append_rows(const AppendRows& arguments, const HeadShape& shape, cudaStream_t stream);
Result<void> merge_rows(const MergeArguments& arguments, cudaStream_t stream);
Result<void> norm_rows(const RmsNormArguments& arguments, cudaStream_t stream);
Result<void> rotate_rows(const RopeArguments& arguments, cudaStream_t stream);

}  // namespace nanolith::cuda
