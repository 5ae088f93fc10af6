// Plans the steps that the short kernel takes: few rows, whose sequences' tokens fit in the shared memory of a cluster.
#pragma once

#include <cstdint>

#include "attention/plan/plan_shape.h"
#include "attention/plan/short_work.h"
#include "attention/plan/written_rows.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// Writes the plan, and returns whether the step is one for the short kernel; if not, the plan's counts are zeros.
bool plan_short(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written, ShortPlan& plan);

}  // namespace nanolith::cuda
