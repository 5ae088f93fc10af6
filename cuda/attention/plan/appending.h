// Which steps' keys and values the narrow kernel writes to the pages itself, in place of a launch before it: those of a
// few rows, each of another sequence, whose own token is the last that one item attends to.
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
