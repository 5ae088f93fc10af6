#include "backend/check_step.h"

#include <algorithm>

namespace nanolith {
namespace {

// One element's check. `least` and `most` are allowed.
Result<void> check_element(const StepNames& names, const ArrayName& name, int64_t index, int64_t value, int64_t least,
                           int64_t most) {
    if (value >= least && value <= most) return {};
    return fail(names.status, name.array, "[", index, "]", name.field, " is ", value, ": expected ", least, " to ",
                most);
}

Result<void> check_segments(const AttentionStep& step, const StepRules& rules, const StepNames& names) {
    const auto entries = static_cast<int64_t>(step.page_table.size());
    for (size_t i = 0; i < step.segments.size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        const Segment& segment = step.segments[i];
        NL_TRY(check_element(names, names.first_pages, index, segment.first_page, 0, entries));
        NL_TRY(check_element(names, names.lengths, index, segment.length, 0,
                             (entries - segment.first_page) * rules.page_size));
        NL_TRY(check_element(names, names.bases, index, segment.base, 0, rules.max_position - 1));
    }
    return {};
}

Result<void> check_positions(const AttentionStep& step, const StepRules& rules, const StepNames& names,
                             const Sequence& sequence) {
    const auto first = static_cast<size_t>(sequence.first_row);
    for (size_t row = first; row < first + static_cast<size_t>(sequence.num_rows); ++row) {
        const int32_t position = step.positions[row];
        const auto index = static_cast<int64_t>(row);
        NL_TRY(check_element(names, names.positions, index, position, 0, rules.max_position - 1));
        if (row > first && position != step.positions[row - 1] + 1)
            return fail(names.status, names.positions.array, "[", row, "]", names.positions.field, " is ", position,
                        ": expected ", step.positions[row - 1] + 1, ", the next of its sequence");
    }
    return {};
}

// Queries are rotated by their distance from a segment's beginning.
Result<void> check_distances(const AttentionStep& step, const StepRules& rules, const StepNames& names, size_t index) {
    if (rules.max_distance == 0) return {};
    const Sequence& sequence = step.sequences[index];
    const int64_t first = step.positions[sequence.first_row];
    const int64_t last = first + sequence.num_rows - 1;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const Segment& segment = step.segments[sequence.first_segment + i];
        if (segment.length == 0) continue;
        const int64_t before = rules.causal ? 0 : segment.base - first;
        const int64_t distance = std::max(last - segment.base, before);
        if (distance >= rules.max_distance)
            return fail(names.status, "sequence ", index, " has a query ", distance, " positions from the base ",
                        segment.base, " of its segment ", i,
                        ": expected less than the rotation's max_position = ", rules.max_distance);
    }
    return {};
}

Result<void> check_rows_see_keys(const AttentionStep& step, const StepRules& rules, const StepNames& names,
                                 size_t index) {
    if (!rules.every_row_sees_a_key) return {};
    const Sequence& sequence = step.sequences[index];
    const int32_t position = step.positions[sequence.first_row];  // later rows see at least as much
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const Segment& segment = step.segments[sequence.first_segment + i];
        if (segment.length > 0 && (segment.base <= position || !rules.causal)) return {};
    }
    return fail(names.status, "sequence ", index, " begins at position ", position, ", which sees no key in its ",
                sequence.num_segments, " segments: expected one at least");
}

Result<void> check_sequences(const AttentionStep& step, const StepRules& rules, const StepNames& names) {
    const auto rows = static_cast<int64_t>(step.positions.size());
    const auto segments = static_cast<int64_t>(step.segments.size());
    int64_t next_row = 0;
    for (size_t i = 0; i < step.sequences.size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        const Sequence& sequence = step.sequences[i];
        NL_TRY(check_element(names, names.first_rows, index, sequence.first_row, next_row, next_row));
        NL_TRY(check_element(names, names.num_rows, index, sequence.num_rows, 1, rows - next_row));
        NL_TRY(check_element(names, names.first_segments, index, sequence.first_segment, 0, segments));
        NL_TRY(check_element(names, names.num_segments, index, sequence.num_segments, 0,
                             segments - sequence.first_segment));
        NL_TRY(check_positions(step, rules, names, sequence));
        NL_TRY(check_distances(step, rules, names, i));
        NL_TRY(check_rows_see_keys(step, rules, names, i));
        next_row += sequence.num_rows;
    }
    if (next_row == rows) return {};
    return fail(names.status, names.num_rows.array, names.num_rows.field, " sums to ", next_row, ": expected ",
                names.position_count, " = ", rows);
}

}  // namespace

Result<void> check_page_table(std::span<const int32_t> entries, int64_t first, int64_t num_pages,
                              const StepNames& names) {
    for (size_t i = 0; i < entries.size(); ++i)
        NL_TRY(check_element(names, names.page_table, first + static_cast<int64_t>(i), entries[i], 0, num_pages - 1));
    return {};
}

Result<void> check_step(const AttentionStep& step, const StepRules& rules, const StepNames& names) {
    NL_TRY(check_segments(step, rules, names));
    return check_sequences(step, rules, names);
}

Result<void> check_slots(std::span<const int32_t> slots, int64_t num_slots, const StepNames& names,
                         std::vector<int32_t>& sorted) {
    for (size_t i = 0; i < slots.size(); ++i)
        NL_TRY(check_element(names, names.slots, static_cast<int64_t>(i), slots[i], kNoSlot, num_slots - 1));
    sorted.assign(slots.begin(), slots.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(), [](int32_t a, int32_t b) { return a == b && a != kNoSlot; });
    if (twice == sorted.end()) return {};
    return fail(names.status, names.slots.array, names.slots.field, " has ", *twice,
                " twice: expected a slot for one row only");
}

Result<void> check_key_positions(std::span<const int32_t> key_positions, int64_t max_position, const StepNames& names) {
    for (size_t i = 0; i < key_positions.size(); ++i)
        NL_TRY(
            check_element(names, names.key_positions, static_cast<int64_t>(i), key_positions[i], 0, max_position - 1));
    return {};
}

}  // namespace nanolith
