// The page pool of one layer: [num_pages, 2, num_kv_heads, page_size, head_dim], 2 = keys, values. One head's keys
// (or values) of one page are one contiguous tile [page_size, head_dim].
#pragma once

#include <cstdint>

#include "backend/cpu/buffer.h"

namespace nanolith::cpu {

struct PoolShape {
    int32_t num_pages = 0;
    int32_t num_kv_heads = 0;
    int32_t page_size = 0;
    int32_t head_dim = 0;

    [[nodiscard]] int64_t tile_elements() const { return int64_t{page_size} * head_dim; }
    [[nodiscard]] int64_t page_elements() const { return 2 * num_kv_heads * tile_elements(); }
    [[nodiscard]] int64_t key_tile(int64_t page, int64_t head) const {
        return page * page_elements() + head * tile_elements();
    }
    [[nodiscard]] int64_t value_tile(int64_t page, int64_t head) const { return key_tile(page, num_kv_heads + head); }
};

template <typename T>
struct LayerPool {
    PoolShape shape;
    Buffer<T> data;

    [[nodiscard]] const T* keys(int64_t page, int64_t head) const { return data.data() + shape.key_tile(page, head); }
    [[nodiscard]] const T* values(int64_t page, int64_t head) const {
        return data.data() + shape.value_tile(page, head);
    }
    [[nodiscard]] T* keys(int64_t page, int64_t head) { return data.data() + shape.key_tile(page, head); }
    [[nodiscard]] T* values(int64_t page, int64_t head) { return data.data() + shape.value_tile(page, head); }
};

}  // namespace nanolith::cpu
