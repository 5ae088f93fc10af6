// Which share of the narrow work each block gets: assigning.
//
// A block's share is a number of KV tiles. Blocks get their shares in the order of their numbers, each of what the
// blocks before it have left, so that what one does more or less than its share is divided among all that follow.
#pragma once

#include <cstdint>

#include "attention/plan/overlap.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"

namespace nanolith::cuda {

class BlockShares {
  public:
    // There is at least one narrow query tile.
    BlockShares(const PlanShape& shape, const TileTotals& totals, const Overlap& overlap);

    // Blocks that get a share, of each KV head. They are the first of the narrow_blocks().
    [[nodiscard]] int blocks() const { return blocks_; }
    // The first of them, which run beside wide items (overlap.h).
    [[nodiscard]] int early_blocks() const { return early_blocks_; }

    // What another item costs a block, as KV tiles that it does in that time; 0 where shares leave it out.
    [[nodiscard]] int32_t item_kv_tiles() const { return item_kv_tiles_; }
    // The share of a block where it and those after it have `kv_tiles` to do; at least 1.
    [[nodiscard]] int32_t share_of(int block, int64_t kv_tiles) const;
    // KV tiles by which a block may exceed its share so that a query tile is not split, which takes no longer than
    // merging two splits.
    [[nodiscard]] int32_t slack_of(int32_t share) const;
    // Whether the wide items may not have ended when this block has done so many KV tiles.
    [[nodiscard]] bool may_be_beside_wide(int block, int32_t kv_tiles_done) const {
        return block < early_blocks_ && kv_tiles_done <= before_wide_end_;
    }

  private:
    int blocks_ = 1;
    int early_blocks_ = 0;
    double before_wide_end_ = 0;  // KV tiles that an early block may do before the wide items end
    double early_share_ = 0;      // shares are in proportion to this for early blocks,
    double late_share_ = 1;       // and to this for the others
    int32_t item_kv_tiles_ = 0;
    int32_t worth_a_split_ = 0;  // KV tiles that a block does in the time that splitting a query tile costs
};

}  // namespace nanolith::cuda
