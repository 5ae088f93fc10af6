// Plans the steps that the short kernel takes: few rows, whose sequences' tokens fit in the shared memory of a cluster.
#pragma once

#include <cstdint>
#include <span>

#include "attention/plan/plan_shape.h"
#include "attention/plan/short_work.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// Where the keys and values of a step's rows are written: as Batch has them. Empty: before, by another launch.
struct WrittenRows {
    std::span<const int32_t> slots;          // [rows]
    std::span<const int32_t> key_positions;  // [rows]
};

// Writes the plan, and returns whether the step is one for the short kernel; if not, the plan's counts are zeros.
bool plan_short(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written, ShortPlan& plan);

}  // namespace nanolith::cuda
