// How a step's wide and narrow items share the multiprocessors. Decode rows after a prefix that they share have both:
// the prefix is read by wide items, bound by products, and what each row has of its own by narrow ones, bound by
// memory. Side by side they take less time than one after the other.
//
// Wide items are launched first. The narrow blocks that find a free multiprocessor beside them are "early", the others,
// "late", begin when wide items end.
#pragma once

#include <cstdint>

#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"

namespace nanolith::cuda {

// Multiprocessors and blocks are counted for each KV head, and the shares of blocks in KV tiles.
struct Overlap {
    int wide_multiprocessors = 1;  // that wide query tiles are split for
    int early_blocks = 0;          // 0: narrow blocks are not told apart
    double before_wide_end = 0;    // what an early block does of its share before the wide items end
    double early_share = 0;        // of an early block
    double late_share = 0;         // of each other block; 0: there are no others
};

// Wide items use all multiprocessors, and narrow blocks begin after them.
Overlap no_overlap(const PlanShape& shape);

// The division that is predicted to end first.
Overlap choose_overlap(const PlanShape& shape, const TileTotals& totals);

// KV tiles of each split of a wide query tile that has `kv_tiles`, where `all_kv_tiles` of all wide query tiles are
// divided among so many multiprocessors.
int32_t wide_split_size(int32_t kv_tiles, int64_t all_kv_tiles, int multiprocessors);

}  // namespace nanolith::cuda
