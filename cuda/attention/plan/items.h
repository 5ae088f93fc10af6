// Phase 4 of planning: splits become the items that the kernels read (work.h).
#pragma once

#include <span>

#include "attention/plan/attention_plan.h"
#include "attention/plan/merging.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"
#include "attention/plan/splits.h"
#include "attention/plan/written_rows.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// Writes plan.narrow and plan.wide, the latter in the order of the splits, and adds the splits' own spans to
// plan.spans.
void write_items(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written,
                 std::span<const QueryTile> tiles, const Splitter& splitter, const MergePlanner& merging,
                 AttentionPlan& plan);

}  // namespace nanolith::cuda
