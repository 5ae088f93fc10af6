// The page pool of one layer: [num_pages, 2, num_kv_heads, page_size, head_dim], 2 = keys, values. One head's keys
// (or values) of one page are one contiguous tile [page_size, head_dim].
#pragma once

#include <cstdint>

#include "backend/kernels.h"

namespace nanolith::cpu {

// Where things lie in a pool, in elements of `dtype`.
struct PoolShape {
    int32_t num_kv_heads = 0;
    int32_t page_size = 0;
    int32_t head_dim = 0;
    DType dtype = DType::f32;

    [[nodiscard]] int64_t tile_elements() const { return int64_t{page_size} * head_dim; }
    [[nodiscard]] int64_t page_elements() const { return 2 * num_kv_heads * tile_elements(); }
    [[nodiscard]] int64_t page_bytes() const { return page_elements() * static_cast<int64_t>(dtype_bytes(dtype)); }
    [[nodiscard]] int64_t key_tile(int64_t page, int64_t head) const {
        return page * page_elements() + head * tile_elements();
    }
    [[nodiscard]] int64_t value_tile(int64_t page, int64_t head) const { return key_tile(page, num_kv_heads + head); }
};

// Puts the key and the value [head_dim] of one token and KV head into the token's slot, divided by the pages' scales
// and rounded to their format. The key is rotated by `turn` (RotationTable) before; null: it is not. Both `key` and
// `value` hold anything afterwards.
void append_head(const PoolShape& shape, const Pages<void>& pages, int32_t slot, int64_t head, const float* turn,
                 float* key, float* value);

}  // namespace nanolith::cpu
