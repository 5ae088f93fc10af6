// A step's keys and values as the projection gives them, and what is applied to these and to the queries beside them
// before attention.
#pragma once

#include "norm/norm.h"
#include "runtime/row_layout.h"

namespace nanolith::cuda {

template <typename T>
struct ProjectedRows {
    const T* keys = nullptr;  // [rows, num_kv_heads, head_dim]
    RowLayout key_layout;
    const T* values = nullptr;  // the same
    RowLayout value_layout;
    const T* bias = nullptr;  // of queries, keys, values: [num_heads + 2 * num_kv_heads, head_dim]; or null
    Norm q_norm;              // of [head_dim], or none
    Norm k_norm;
};

}  // namespace nanolith::cuda
