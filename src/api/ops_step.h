// The host arrays of nl_attention_plan_set and nl_attention_plan_set_slots, checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kernels.h"

namespace nanolith::api {

// As the function takes them; arrays that belong together have one length.
struct StepArguments {
    int64_t num_pages = 0;
    std::span<const int32_t> page_table;
    std::span<const int32_t> first_entries;
    std::span<const int32_t> lengths;
    std::span<const int32_t> bases;
    std::span<const int32_t> sequence_rows;
    std::span<const int32_t> sequence_segments;
    std::span<const int32_t> positions;
};

// The step that the arrays describe, which views them, `segments` and `sequences`.
Result<AttentionStep> check_step(const StepArguments& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                                 std::vector<Segment>& segments, std::vector<Sequence>& sequences);

struct SlotArguments {
    int64_t num_pages = 0;
    std::span<const int32_t> slots;
    std::span<const int32_t> key_positions;  // empty without rotation
};

// `sorted` is overwritten.
Result<void> check_slots(const SlotArguments& arguments, const AttentionSpec& spec, const PlanCapacity& capacity,
                         std::vector<int32_t>& sorted);

// The pool argument of a run or an append of `rows` rows.
Result<void> check_pages(const void* pages, const AttentionSpec& spec, int64_t rows, size_t alignment);

}  // namespace nanolith::api
