// The steps of nl_attention_plan_set and nl_attention_plan_set_slots, checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kernels.h"
#include "nanolith/nanolith_ops.h"

namespace nanolith::api {

// The step that the struct describes, which views its arrays, `segments` and `sequences`.
Result<AttentionStep> check_step(const nl_attention_step& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                                 std::vector<Segment>& segments, std::vector<Sequence>& sequences);

// What nl_append_step describes, and views of its arrays.
struct AppendStep {
    std::span<const int32_t> slots;
    std::span<const int32_t> key_positions;  // empty without rotation
};

// `sorted` is overwritten.
Result<AppendStep> check_slots(const nl_append_step& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                               std::vector<int32_t>& sorted);

// The pool argument of a run or an append of `rows` rows.
Result<void> check_pages(const void* pages, const AttentionSpec& spec, int64_t rows, size_t alignment);

}  // namespace nanolith::api
