// Turns the segments of a step into the work list of the attention kernels (work.h), in four phases:
//
//   1. query_tiles.h  rows become query tiles, also those of several sequences that share a segment (cascade.h)
//   2. splits.h       query tiles are split along the tokens: wide ones for the multiprocessors that overlap.h leaves
//                     them, narrow ones where the share of a block ends (block_shares.h)
//   3. merging.h      where partial results are written, and who merges them
//   4. items.h        the items as the kernels read them; wide_order.h orders those of the wide kernel, and appending.h
//                     decides whether the narrow kernel writes the step's new keys and values to the pages itself
//
// A step for the short kernel has a plan of its own instead (short_plan.h). The words are those of
// cuda/attention/README.md. Cost: in the order of rows, segments and items.
#pragma once

#include <cstdint>

#include "attention/plan/attention_plan.h"
#include "attention/plan/bounds.h"
#include "attention/plan/merging.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"
#include "attention/plan/short_plan.h"
#include "attention/plan/splits.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// Makes the plans of one PlanShape, and keeps its memory from one to the next.
class AttentionPlanner {
  public:
    // Plans have no more partial results than partial_bounds() gives for `max_rows`.
    AttentionPlanner(const PlanShape& shape, int64_t max_rows);

    // The step must be one that check_step accepts. The plan is valid until the next call. `written`: of a step
    // whose launches of attention may begin before its keys and values are written, or write them.
    const AttentionPlan& plan(const AttentionStep& step, const WrittenRows& written = {});

  private:
    const PlanShape shape_;
    QueryTiler tiler_;
    Splitter splitter_;
    MergePlanner merging_;
    AttentionPlan plan_;
};

}  // namespace nanolith::cuda
