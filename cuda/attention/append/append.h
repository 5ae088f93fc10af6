// Writes new keys and values to the KV pages, and finishes the queries of the same rows.
#pragma once

#include <cuda_runtime_api.h>

#include "attention/attention.h"
#include "attention/common/projected_rows.h"
#include "attention/common/shape.h"
#include "base/result.h"

namespace nanolith::cuda {

template <typename T>
struct AppendArguments {
    T* queries = nullptr;  // [rows, num_heads, head_dim], or null: no queries to finish
    RowLayout query_layout;
    ProjectedRows<T> projected;
    const float* frequencies = nullptr;      // [head_dim / 2], or null: keys are not rotated
    const float* magnitudes = nullptr;       // [head_dim / 2], or null: all 1
    const int32_t* key_positions = nullptr;  // [rows]; used with frequencies alone
    const int32_t* slots = nullptr;          // [rows]; kNoSlot: the row's keys and values are not read
    void* pages = nullptr;                   // [num_pages, 2, num_kv_heads, page_size, head_dim]
    bool fp8 = false;                        // pages are fp8 e4m3 and not of T
    float key_factor = 1;                    // what is stored is multiplied by these
    float value_factor = 1;
};

// Adds the bias; normalises queries and keys; rotates the keys for key_positions and writes them and the values to
// their slots. The queries are written back in place, not rotated: attention rotates them for each segment. Pages of
// fp8 are for T of 16 bits; values beyond 448 are stored as 448. `early`: the launch
// may begin while the previous launch of the stream still runs, and then reads slots and positions at once.
template <typename T>
Result<void> append_to_pages(const AppendArguments<T>& arguments, const HeadShape& shape, int rows, bool early,
                             cudaStream_t stream);

}  // namespace nanolith::cuda
