#include "backend/cpu/kv_pool.h"

#include "backend/cpu/attention_tile.h"
#include "backend/cpu/norm_rope.h"
#include "backend/cpu/rows.h"

namespace nanolith::cpu {

void append_head(const PoolShape& shape, const Pages<void>& pages, int32_t slot, int64_t head, const float* turn,
                 float* key, float* value) {
    const int64_t dim = shape.head_dim;
    const int64_t page = slot / shape.page_size;
    const int64_t at = slot % shape.page_size * dim;
    if (turn != nullptr) {
        rotate(key, turn, dim, 1.0F / pages.k_scale, key);
    } else if (pages.k_scale != 1) {
        scale_row(key, 1.0F / pages.k_scale, dim, key);
    }
    if (pages.v_scale != 1) scale_row(value, 1.0F / pages.v_scale, dim, value);
    store_row(shape.dtype, key, dim, element(shape.dtype, pages.data, shape.key_tile(page, head) + at));
    store_row(shape.dtype, value, dim, element(shape.dtype, pages.data, shape.value_tile(page, head) + at));
}

}  // namespace nanolith::cpu
