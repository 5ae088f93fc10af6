// The checks of an attention step that the executors and the plans of nanolith_ops.h share: a step that passes indexes
// nothing outside its own arrays and the page pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kernels.h"

namespace nanolith {

// How a caller writes element i of an array: `array`[i]`field`.
struct ArrayName {
    const char* array = "";
    const char* field = "";
};

// What errors say: their status, and the arrays as the caller knows them.
struct StepNames {
    nl_status status = NL_ERROR_INTERNAL;
    ArrayName page_table;
    ArrayName first_pages;  // of segments
    ArrayName lengths;
    ArrayName bases;
    ArrayName first_rows;  // of sequences
    ArrayName num_rows;
    ArrayName first_segments;
    ArrayName num_segments;
    ArrayName positions;
    const char* position_count = "";  // how many positions there are
    ArrayName slots;
    ArrayName key_positions;
};

struct StepRules {
    int32_t page_size = 0;
    int64_t max_position = 0;  // positions and bases are below it
    bool causal = true;
    int64_t max_distance = 0;  // of a query from the base of what it sees, which it is rotated by; 0: any
    bool every_row_sees_a_key = false;
};

// Entries of a page table, the first of them entry `first`: each is a page of the pool.
Result<void> check_page_table(std::span<const int32_t> entries, int64_t first, int64_t num_pages,
                              const StepNames& names);

// Everything but the contents of the page table: segments lie within it; sequences divide the rows in order, have
// segments that exist, and consecutive positions.
Result<void> check_step(const AttentionStep& step, const StepRules& rules, const StepNames& names);

// Slots are kNoSlot or below num_slots, no other one twice. `sorted` is overwritten.
Result<void> check_slots(std::span<const int32_t> slots, int64_t num_slots, const StepNames& names,
                         std::vector<int32_t>& sorted);

// Each is at least 0 and below max_position.
Result<void> check_key_positions(std::span<const int32_t> key_positions, int64_t max_position, const StepNames& names);

}  // namespace nanolith
