#include "attention/plan/bounds.h"

#include <algorithm>

namespace nanolith::cuda {

namespace {

// Splits of the query tiles that have more than one. A narrow query tile is split where the share of a block ends, so
// there are no more than two for each block. For the arrays this leaves room for the items of blocks without work.
int64_t narrow_splits(const PlanShape& shape) {
    return int64_t{2} * narrow_blocks(shape);
}
// Wide query tiles are split for the multiprocessors of a KV head.
int64_t wide_splits(const PlanShape& shape) {
    return 2 * (shape.multiprocessors / shape.num_kv_heads + 1);
}

}  // namespace

int64_t cascade_allowance(const PlanShape& shape, int64_t max_rows) {
    return 2 * std::min(max_rows, shape.cascade_rows) * shape.heads_per_kv();
}

PartialBounds partial_bounds(const PlanShape& shape, int64_t max_rows) {
    const int64_t cascades = cascade_allowance(shape, max_rows);
    PartialBounds bounds;
    bounds.narrow = narrow_splits(shape) * max_narrow_vectors(shape) + cascades;
    if (shape.wide_vectors > 0) bounds.wide = wide_splits(shape) * shape.wide_vectors + cascades;
    return bounds;
}

PlanBounds plan_bounds(const PlanShape& shape, int64_t rows, int64_t sequences, int64_t segments) {
    const int64_t cascade_rows = cascade_allowance(shape, rows) / 2 / shape.heads_per_kv();
    // The rows of a narrow query tile where more rows than fit in one attend to the same segments. A step has the most
    // narrow tiles where it has no wide ones.
    PlanShape narrow = shape;
    narrow.wide_vectors = 0;
    const int64_t tile_rows = rows_per_tile(narrow, std::max<int64_t>(rows, kNarrowVectors + 1), 0);
    const int64_t groups = head_groups(shape).count;
    const int64_t own_tiles = (std::min(rows, sequences) + rows / tile_rows) * groups;
    const int64_t cascade_tiles = (segments / 2 + cascade_rows / tile_rows) * groups;
    PlanBounds bounds;
    bounds.queries = rows + cascade_rows;
    // Splits have spans of their own.
    bounds.spans = 2 * (own_tiles * segments + cascade_tiles) + narrow_splits(shape) + wide_splits(shape);
    bounds.narrow = own_tiles + cascade_tiles + narrow_splits(shape);
    if (shape.wide_vectors > 0) {
        const int64_t wide_rows = std::max(1, shape.wide_vectors / shape.heads_per_kv());
        const int64_t full_tiles = (rows + cascade_rows) / wide_rows * groups;
        bounds.wide = full_tiles + (sequences + segments / 2) * groups + wide_splits(shape);
    }
    return bounds;
}

}  // namespace nanolith::cuda
