// Phase 2 of planning, cutting along the tokens: query tiles become splits, so that all multiprocessors end together
// (Dao et al., Flash-Decoding, 2023). Each split is one item, and narrow ones belong to a block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/block_shares.h"
#include "attention/plan/overlap.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"

namespace nanolith::cuda {

// KV tiles [first_kv_tile, first_kv_tile + num_kv_tiles) of a query tile, counted over all its spans.
struct Split {
    int32_t query_tile;
    int32_t first_kv_tile;
    int32_t num_kv_tiles;
    int32_t block;  // that does it; -1: the query tile is wide
};

// The splits of a query tile, one or more.
struct TileSplits {
    int32_t count;
    int32_t last;  // the index of the last one in Splitter::splits()
    // Narrow, its last split is of an early block, and one of them may run before the wide items have ended.
    bool early;
};

class Splitter {
  public:
    explicit Splitter(const PlanShape& shape) : shape_(shape) {}

    // `with_overlap`: narrow items may run beside wide ones, which takes more splits.
    void split(std::span<const QueryTile> tiles, bool with_overlap);

    // Of the latest call of split(): narrow splits in the order of their blocks, then wide ones in the order of their
    // query tiles. The splits of a query tile follow each other.
    [[nodiscard]] std::span<const Split> splits() const { return splits_; }
    // [query tiles]
    [[nodiscard]] std::span<const TileSplits> of_tiles() const { return of_tiles_; }
    [[nodiscard]] const Overlap& overlap() const { return overlap_; }

  private:
    void split_narrow(std::span<const QueryTile> tiles);
    void split_wide(std::span<const QueryTile> tiles);
    void add(size_t tile, int32_t first_kv_tile, int32_t num_kv_tiles, int block);

    const PlanShape shape_;
    TileTotals totals_;
    Overlap overlap_;
    std::vector<Split> splits_;
    std::vector<TileSplits> of_tiles_;
};

}  // namespace nanolith::cuda
