// In steps of a few rows, each of another sequence, the narrow kernel writes the rows' keys and values to the pages
// itself, and no launch of the append kernel comes before it. A row's key and value are written by the item that
// attends to the row's own token, the last one of that item.
#pragma once

#include "attention/plan/attention_plan.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/written_rows.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// Whether the plan is one of these. Every row must then write its token's key and value, to the page where its item
// finds the token; and no item may attend to a token that another row writes. Cost: the pages of all items.
bool items_append(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written,
                  const AttentionPlan& plan);

}  // namespace nanolith::cuda
