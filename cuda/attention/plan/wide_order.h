// The order of a plan's wide items, which the wide kernel works off from the first to the last.
#pragma once

#include "attention/plan/attention_plan.h"
#include "attention/plan/plan_shape.h"

namespace nanolith::cuda {

// Puts the costliest items first, in groups that read no more keys and values than the L2 cache holds: what is read
// again and again from memory costs time and power. Items of one sequence stay in one group, and where a sequence is
// too long for that, the KV heads are done a few at a time (WideItem::kv_heads_at_once). Little work is one group,
// since groups end unevenly.
void order_wide(const PlanShape& shape, AttentionPlan& plan);

}  // namespace nanolith::cuda
