#include "api/ops_step.h"

#include <algorithm>

#include "api/ops_check.h"
#include "backend/check_step.h"

namespace nanolith::api {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 30;

constexpr StepNames kNames{.status = NL_ERROR_INVALID_ARGUMENT,
                           .page_table = {"step.page_table"},
                           .first_pages = {"step.segment_first_entries"},
                           .lengths = {"step.segment_lengths"},
                           .bases = {"step.segment_bases"},
                           .first_rows = {"step.sequence_rows"},
                           .num_rows = {"step.sequence_rows"},
                           .first_segments = {"step.sequence_segments"},
                           .num_segments = {"step.sequence_segments"},
                           .positions = {"step.positions"},
                           .position_count = "step.num_rows",
                           .slots = {"step.slots"},
                           .key_positions = {"step.key_positions"}};

Result<void> check_capacity(const char* name, size_t size, int32_t capacity, const char* capacity_name) {
    if (size <= static_cast<size_t>(capacity)) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", size, ": expected at most the plan's ", capacity_name, " = ",
                capacity);
}

Result<void> check_num_pages(int64_t num_pages, int32_t page_size) {
    return check_range("step.num_pages", num_pages, 0, INT32_MAX / page_size);
}

// Checks the struct's arrays and makes spans of them; arrays that belong together have one length.
struct StepArrays {
    std::span<const int32_t> page_table;
    std::span<const int32_t> first_entries;
    std::span<const int32_t> lengths;
    std::span<const int32_t> bases;
    std::span<const int32_t> sequence_rows;
    std::span<const int32_t> sequence_segments;
    std::span<const int32_t> positions;
};

Result<StepArrays> arrays_of(const nl_attention_step& step) {
    StepArrays arrays;
    NL_ASSIGN(arrays.page_table, check_array(step.page_table, step.num_entries, "step.page_table", "step.num_entries"));
    NL_ASSIGN(arrays.first_entries, check_array(step.segment_first_entries, step.num_segments,
                                                "step.segment_first_entries", "step.num_segments"));
    NL_ASSIGN(arrays.lengths,
              check_array(step.segment_lengths, step.num_segments, "step.segment_lengths", "step.num_segments"));
    NL_ASSIGN(arrays.bases,
              check_array(step.segment_bases, step.num_segments, "step.segment_bases", "step.num_segments"));
    NL_ASSIGN(arrays.sequence_rows,
              check_array(step.sequence_rows, step.num_sequences, "step.sequence_rows", "step.num_sequences"));
    NL_ASSIGN(arrays.sequence_segments,
              check_array(step.sequence_segments, step.num_sequences, "step.sequence_segments", "step.num_sequences"));
    NL_ASSIGN(arrays.positions, check_array(step.positions, step.num_rows, "step.positions", "step.num_rows"));
    return arrays;
}

// A sequence's first row and segment follow from the sequences before it. After a number that check_step will refuse,
// these may have any value.
void describe(const StepArrays& step, std::vector<Segment>& segments, std::vector<Sequence>& sequences) {
    segments.clear();
    for (size_t i = 0; i < step.lengths.size(); ++i)
        segments.push_back({step.first_entries[i], step.lengths[i], step.bases[i]});
    sequences.clear();
    uint32_t next_row = 0;
    uint32_t next_segment = 0;
    for (size_t i = 0; i < step.sequence_rows.size(); ++i) {
        sequences.push_back({static_cast<int32_t>(next_row), step.sequence_rows[i], static_cast<int32_t>(next_segment),
                             step.sequence_segments[i]});
        next_row += static_cast<uint32_t>(step.sequence_rows[i]);
        next_segment += static_cast<uint32_t>(step.sequence_segments[i]);
    }
}

Result<void> check_all_segments_used(const StepArrays& step) {
    int64_t sum = 0;
    for (const int32_t count : step.sequence_segments) sum += count;
    if (sum == static_cast<int64_t>(step.lengths.size())) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "step.sequence_segments sums to ", sum,
                ": expected step.num_segments = ", step.lengths.size());
}

}  // namespace

Result<AttentionStep> check_step(const nl_attention_step& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                                 std::vector<Segment>& segments, std::vector<Sequence>& sequences) {
    NL_ASSIGN(const StepArrays arrays, arrays_of(step));
    NL_TRY(check_capacity("step.num_entries", step.num_entries, capacity.page_table, "max_page_table"));
    NL_TRY(check_capacity("step.num_segments", step.num_segments, capacity.segments, "max_segments"));
    NL_TRY(check_capacity("step.num_sequences", step.num_sequences, capacity.sequences, "max_sequences"));
    NL_TRY(check_capacity("step.num_rows", step.num_rows, capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(step.num_pages, spec.page_size));
    NL_TRY(check_page_table(arrays.page_table, 0, step.num_pages, kNames));
    describe(arrays, segments, sequences);
    const AttentionStep described{arrays.page_table, segments, sequences, arrays.positions};
    const StepRules rules{.page_size = spec.page_size,
                          .max_position = kMaxPositions,
                          .causal = spec.causal,
                          .max_distance = spec.rope_frequencies.empty() ? 0 : spec.max_position};
    NL_TRY(nanolith::check_step(described, rules, kNames));
    NL_TRY(check_all_segments_used(arrays));
    return described;
}

Result<AppendStep> check_slots(const nl_append_step& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                               std::vector<int32_t>& sorted) {
    AppendStep arrays;
    NL_ASSIGN(arrays.slots, check_array(step.slots, step.num_rows, "step.slots", "step.num_rows"));
    if (!spec.rope_frequencies.empty()) {
        NL_ASSIGN(arrays.key_positions,
                  check_array(step.key_positions, step.num_rows, "step.key_positions", "step.num_rows"));
    } else if (step.key_positions != nullptr) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "step.key_positions is ", step.key_positions,
                    ": expected NULL, as the options have no rotation");
    }
    NL_TRY(check_capacity("step.num_rows", step.num_rows, capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(step.num_pages, spec.page_size));
    NL_TRY(check_key_positions(arrays.key_positions, spec.max_position, kNames));
    NL_TRY(nanolith::check_slots(arrays.slots, step.num_pages * spec.page_size, kNames, sorted));
    return arrays;
}

Result<void> check_pages(const void* pages, const AttentionSpec& spec, int64_t rows, size_t alignment) {
    if (rows == 0) return {};
    NL_TRY(check_pointer(pages, "pages"));
    return check_address("pages", pages, std::max(alignment, dtype_bytes(spec.kv_dtype)));
}

}  // namespace nanolith::api
