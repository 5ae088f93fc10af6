// From the layout of rows of heads in the backend's interface to the kernels' own.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "runtime/row_layout.h"

namespace nanolith::cuda {

template <typename Data>
RowLayout layout_of(const HeadRows<Data>& rows) {
    if (rows.rows_per_block == INT32_MAX) return {rows.row_stride, rows.head_stride};
    return {rows.row_stride, rows.head_stride, rows.block_stride, rows.rows_per_block};
}

}  // namespace nanolith::cuda
