#include "api/ops_step.h"

#include <algorithm>

#include "api/ops_check.h"
#include "backend/check_step.h"

namespace nanolith::api {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 30;

constexpr StepNames kNames{.status = NL_ERROR_INVALID_ARGUMENT,
                           .page_table = {"page_table"},
                           .first_pages = {"segment_first_entries"},
                           .lengths = {"segment_lengths"},
                           .bases = {"segment_bases"},
                           .first_rows = {"sequence_rows"},
                           .num_rows = {"sequence_rows"},
                           .first_segments = {"sequence_segments"},
                           .num_segments = {"sequence_segments"},
                           .positions = {"positions"},
                           .position_count = "num_rows",
                           .slots = {"slots"},
                           .key_positions = {"key_positions"}};

Result<void> check_capacity(const char* name, size_t size, int32_t capacity, const char* capacity_name) {
    if (size <= static_cast<size_t>(capacity)) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", size, ": expected at most the plan's ", capacity_name, " = ",
                capacity);
}

Result<void> check_num_pages(int64_t num_pages, int32_t page_size) {
    return check_range("num_pages", num_pages, 0, INT32_MAX / page_size);
}

// Where the rows and segments of a sequence begin follows from those before it. Behind a number that will be refused,
// what follows may be anything.
void describe(const StepArguments& step, std::vector<Segment>& segments, std::vector<Sequence>& sequences) {
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

Result<void> check_all_segments_used(const StepArguments& step) {
    int64_t sum = 0;
    for (const int32_t count : step.sequence_segments) sum += count;
    if (sum == static_cast<int64_t>(step.lengths.size())) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "sequence_segments sums to ", sum,
                ": expected num_segments = ", step.lengths.size());
}

}  // namespace

Result<AttentionStep> check_step(const StepArguments& step, const AttentionSpec& spec, const PlanCapacity& capacity,
                                 std::vector<Segment>& segments, std::vector<Sequence>& sequences) {
    NL_TRY(check_capacity("num_entries", step.page_table.size(), capacity.page_table, "max_page_table"));
    NL_TRY(check_capacity("num_segments", step.lengths.size(), capacity.segments, "max_segments"));
    NL_TRY(check_capacity("num_sequences", step.sequence_rows.size(), capacity.sequences, "max_sequences"));
    NL_TRY(check_capacity("num_rows", step.positions.size(), capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(step.num_pages, spec.page_size));
    NL_TRY(check_page_table(step.page_table, 0, step.num_pages, kNames));
    describe(step, segments, sequences);
    const AttentionStep described{step.page_table, segments, sequences, step.positions};
    const StepRules rules{.page_size = spec.page_size,
                          .max_position = kMaxPositions,
                          .causal = spec.causal,
                          .max_distance = spec.rope_frequencies.empty() ? 0 : spec.max_position};
    NL_TRY(nanolith::check_step(described, rules, kNames));
    NL_TRY(check_all_segments_used(step));
    return described;
}

Result<void> check_slots(const SlotArguments& arguments, const AttentionSpec& spec, const PlanCapacity& capacity,
                         std::vector<int32_t>& sorted) {
    NL_TRY(check_capacity("num_rows", arguments.slots.size(), capacity.rows, "max_rows"));
    NL_TRY(check_num_pages(arguments.num_pages, spec.page_size));
    NL_TRY(check_key_positions(arguments.key_positions, spec.max_position, kNames));
    return nanolith::check_slots(arguments.slots, arguments.num_pages * spec.page_size, kNames, sorted);
}

Result<void> check_pages(const void* pages, const AttentionSpec& spec, int64_t rows, size_t alignment) {
    if (rows == 0) return {};
    NL_TRY(check_pointer(pages, "pages"));
    return check_address("pages", pages, std::max(alignment, dtype_bytes(spec.kv_dtype)));
}

}  // namespace nanolith::api
