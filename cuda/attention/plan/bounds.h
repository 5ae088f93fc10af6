// How large a plan can get: what memory for plans and partial results is allocated from.
#pragma once

#include <cstdint>

#include "attention/plan/plan_shape.h"

namespace nanolith::cuda {

// No plan of at most so many rows, sequences and segments has more elements in the arrays of AttentionPlan.
struct PlanBounds {
    int64_t queries = 0;
    int64_t spans = 0;
    int64_t narrow = 0;
    int64_t wide = 0;
};
PlanBounds plan_bounds(const PlanShape& shape, int64_t rows, int64_t sequences, int64_t segments);

// Room for partial results, in vectors for each KV head: those that narrow items write come first, then those of wide
// items (PartialView). A plan that would need more is made again with fewer splits and cascades.
struct PartialBounds {
    int64_t narrow = 0;
    int64_t wide = 0;
};
PartialBounds partial_bounds(const PlanShape& shape, int64_t max_rows);

// Partial vectors for each KV head that cascades may add to those of splits.
int64_t cascade_allowance(const PlanShape& shape, int64_t max_rows);

}  // namespace nanolith::cuda
