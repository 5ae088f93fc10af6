#include "api/ops_step.h"

#include <algorithm>
#include <string>

#include "api/ops_check.h"

namespace nanolith::api {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 30;

Result<void> check_capacity(const char* name, size_t size, int32_t capacity, const char* capacity_name) {
    if (size <= static_cast<size_t>(capacity)) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", size, ": expected at most the plan's ", capacity_name, " = ",
                capacity);
}

Result<void> check_element(const char* name, size_t index, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, "[", index, "] is ", value, ": expected ", least, " to ", most);
}

Result<void> check_num_pages(int64_t num_pages, int32_t page_size) {
    return check_range("num_pages", num_pages, 0, INT32_MAX / page_size);
}

Result<void> check_segments(const StepArguments& step, int32_t page_size, std::vector<Segment>& segments) {
    segments.clear();
    const auto entries = static_cast<int64_t>(step.page_table.size());
    for (size_t i = 0; i < step.lengths.size(); ++i) {
        NL_TRY(check_element("segment_first_entries", i, step.first_entries[i], 0, entries));
        NL_TRY(check_element("segment_lengths", i, step.lengths[i], 0, (entries - step.first_entries[i]) * page_size));
        NL_TRY(check_element("segment_bases", i, step.bases[i], 0, kMaxPositions - 1));
        segments.push_back({step.first_entries[i], step.lengths[i], step.bases[i]});
    }
    return {};
}

Result<void> check_positions(const StepArguments& step, const Sequence& sequence) {
    const auto first = static_cast<size_t>(sequence.first_row);
    for (size_t row = first; row < first + static_cast<size_t>(sequence.num_rows); ++row) {
        NL_TRY(check_element("positions", row, step.positions[row], 0, kMaxPositions - 1));
        if (row > first && step.positions[row] != step.positions[row - 1] + 1)
            return fail(NL_ERROR_INVALID_ARGUMENT, "positions[", row, "] is ", step.positions[row], ": expected ",
                        step.positions[row - 1] + 1, ", the next of its sequence");
    }
    return {};
}

// Queries are rotated by their distance from a segment's beginning.
Result<void> check_distances(const StepArguments& step, const AttentionSpec& spec, const Sequence& sequence,
                             size_t index, const std::vector<Segment>& segments) {
    if (spec.rope_frequencies.empty()) return {};
    const int64_t first = step.positions[static_cast<size_t>(sequence.first_row)];
    const int64_t last = first + sequence.num_rows - 1;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const Segment& segment = segments[static_cast<size_t>(sequence.first_segment + i)];
        if (segment.length == 0) continue;
        const int64_t before = spec.causal ? 0 : segment.base - first;
        const int64_t distance = std::max(last - segment.base, before);
        if (distance >= spec.max_position)
            return fail(NL_ERROR_INVALID_ARGUMENT, "sequence ", index, " has a query ", distance,
                        " positions from the base ", segment.base, " of its segment ", i,
                        ": expected less than the rotation's max_position = ", spec.max_position);
    }
    return {};
}

Result<void> check_sum(const char* name, int64_t sum, const char* total_name, size_t total) {
    if (sum == static_cast<int64_t>(total)) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " sums to ", sum, ": expected ", total_name, " = ", total);
}

Result<void> check_sequences(const StepArguments& step, const AttentionSpec& spec, std::vector<Sequence>& sequences,
                             const std::vector<Segment>& segments) {
    sequences.clear();
    const auto rows = static_cast<int64_t>(step.positions.size());
    const auto num_segments = static_cast<int64_t>(segments.size());
    int64_t next_row = 0;
    int64_t next_segment = 0;
    for (size_t i = 0; i < step.sequence_rows.size(); ++i) {
        const Sequence sequence{static_cast<int32_t>(next_row), step.sequence_rows[i],
                                static_cast<int32_t>(next_segment), step.sequence_segments[i]};
        NL_TRY(check_element("sequence_rows", i, sequence.num_rows, 1, rows - next_row));
        NL_TRY(check_element("sequence_segments", i, sequence.num_segments, 0, num_segments - next_segment));
        NL_TRY(check_positions(step, sequence));
        NL_TRY(check_distances(step, spec, sequence, i, segments));
        sequences.push_back(sequence);
        next_row += sequence.num_rows;
        next_segment += sequence.num_segments;
    }
    NL_TRY(check_sum("sequence_rows", next_row, "num_rows", step.positions.size()));
    return check_sum("sequence_segments", next_segment, "num_segments", segments.size());
}

}  // namespace

Result<AttentionStep> check_step(const StepArguments& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                                 std::vector<Segment>& segments, std::vector<Sequence>& sequences) {
    NL_TRY(check_capacity("num_entries", step.page_table.size(), capacity.page_table, "max_page_table"));
    NL_TRY(check_capacity("num_segments", step.lengths.size(), capacity.segments, "max_segments"));
    NL_TRY(check_capacity("num_sequences", step.sequence_rows.size(), capacity.sequences, "max_sequences"));
    NL_TRY(check_capacity("num_rows", step.positions.size(), capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(step.num_pages, spec.page_size));
    for (size_t i = 0; i < step.page_table.size(); ++i)
        NL_TRY(check_element("page_table", i, step.page_table[i], 0, step.num_pages - 1));
    NL_TRY(check_segments(step, spec.page_size, segments));
    NL_TRY(check_sequences(step, spec, sequences, segments));
    return AttentionStep{step.page_table, segments, sequences, step.positions};
}

Result<void> check_slots(const SlotArguments& arguments, const AttentionSpec& spec, const PlanCapacity& capacity,
                         std::vector<int32_t>& sorted) {
    NL_TRY(check_capacity("num_rows", arguments.slots.size(), capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(arguments.num_pages, spec.page_size));
    for (size_t i = 0; i < arguments.slots.size(); ++i) {
        NL_TRY(check_element("slots", i, arguments.slots[i], kNoSlot, arguments.num_pages * spec.page_size - 1));
        if (!arguments.key_positions.empty())
            NL_TRY(check_element("key_positions", i, arguments.key_positions[i], 0, spec.max_position - 1));
    }
    sorted.assign(arguments.slots.begin(), arguments.slots.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(), [](int32_t a, int32_t b) { return a == b && a != kNoSlot; });
    if (twice != sorted.end())
        return fail(NL_ERROR_INVALID_ARGUMENT, "slots has ", *twice, " twice: expected a slot for one row only");
    return {};
}

Result<void> check_pages(const void* pages, const AttentionSpec& spec, int64_t rows, size_t alignment) {
    if (rows == 0) return {};
    NL_TRY(check_pointer(pages, "pages"));
    return check_address("pages", pages, std::max(alignment, dtype_bytes(spec.kv_dtype)));
}

}  // namespace nanolith::api
