#include "backend/check_batch.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace nanolith {
namespace {

Result<void> check_size(std::string_view what, size_t size, size_t expected) {
    if (size == expected) return {};
    return fail(NL_ERROR_INTERNAL, "batch.", what, " has ", size, " elements, expected ", expected);
}

Result<void> check_range(std::string_view what, const std::vector<int32_t>& values, int64_t low, int64_t high) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] < low || values[i] >= high)
            return fail(NL_ERROR_INTERNAL, "batch.", what, "[", i, "] is ", values[i], ", expected ", low, " to ",
                        high - 1);
    }
    return {};
}

Result<void> check_slots(const std::vector<int32_t>& slots, int64_t num_slots) {
    NL_TRY(check_range("slots", slots, kNoSlot, num_slots));
    std::vector<int32_t> sorted(slots);
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (sorted[i] != kNoSlot && sorted[i] == sorted[i - 1])
            return fail(NL_ERROR_INTERNAL, "batch.slots has ", sorted[i], " twice, expected a slot for one row only");
    }
    return {};
}

Result<void> check_segments(const ExecutorOptions& options, const Batch& batch) {
    const auto num_entries = static_cast<int64_t>(batch.page_table.size());
    for (size_t i = 0; i < batch.segments.size(); ++i) {
        const Segment& segment = batch.segments[i];
        if (segment.first_page < 0 || segment.length < 0 || segment.base < 0)
            return fail(NL_ERROR_INTERNAL, "batch.segments[", i, "] has first_page ", segment.first_page, ", length ",
                        segment.length, ", base ", segment.base, ", expected none below 0");
        const int64_t pages = (int64_t{segment.length} + options.page_size - 1) / options.page_size;
        if (segment.first_page + pages > num_entries)
            return fail(NL_ERROR_INTERNAL, "batch.segments[", i, "] needs page table entries ", segment.first_page,
                        " to ", segment.first_page + pages - 1, ", but there are ", num_entries);
    }
    return {};
}

Result<void> check_rows_see_keys(const Batch& batch, size_t index) {
    const Sequence& sequence = batch.sequences[index];
    const int32_t position = batch.positions[static_cast<size_t>(sequence.first_row)];  // later rows see no less
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const Segment& segment = batch.segments[static_cast<size_t>(sequence.first_segment + i)];
        if (segment.length > 0 && segment.base <= position) return {};
    }
    return fail(NL_ERROR_INTERNAL, "batch.sequences[", index, "] begins at position ", position,
                ", which sees no key in its ", sequence.num_segments, " segments");
}

Result<void> check_sequences(const Batch& batch) {
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    const auto segments = static_cast<int64_t>(batch.segments.size());
    int64_t next_row = 0;
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        const Sequence& sequence = batch.sequences[i];
        if (sequence.first_row != next_row || sequence.num_rows < 1 || next_row + sequence.num_rows > rows)
            return fail(NL_ERROR_INTERNAL, "batch.sequences[", i, "] has rows from ", sequence.first_row, ", ",
                        sequence.num_rows, " of them, expected to begin at ", next_row, " and to stay below ", rows);
        if (sequence.first_segment < 0 || sequence.num_segments < 0 ||
            int64_t{sequence.first_segment} + sequence.num_segments > segments)
            return fail(NL_ERROR_INTERNAL, "batch.sequences[", i, "] has segments from ", sequence.first_segment, ", ",
                        sequence.num_segments, " of them, but there are ", segments);
        for (int64_t row = next_row + 1; row < next_row + sequence.num_rows; ++row) {
            const int32_t before = batch.positions[static_cast<size_t>(row - 1)];
            if (batch.positions[static_cast<size_t>(row)] != before + 1)
                return fail(NL_ERROR_INTERNAL, "batch.positions[", row, "] is ",
                            batch.positions[static_cast<size_t>(row)], ", expected ", before + 1,
                            ", the next of its sequence");
        }
        NL_TRY(check_rows_see_keys(batch, i));
        next_row += sequence.num_rows;
    }
    if (next_row != rows)
        return fail(NL_ERROR_INTERNAL, "batch.sequences have ", next_row, " rows, expected all ", rows);
    return {};
}

Result<void> check_sampling(const std::vector<SampleParams>& sampling) {
    for (size_t i = 0; i < sampling.size(); ++i) {
        const SampleParams& p = sampling[i];
        const bool good = std::isfinite(p.temperature) && p.temperature >= 0 && p.top_k >= 0 && p.top_p > 0 &&
                          p.top_p <= 1 && p.min_p >= 0 && p.min_p <= 1 && p.uniform >= 0 && p.uniform < 1;
        if (!good)
            return fail(NL_ERROR_INTERNAL, "batch.sampling[", i, "] has temperature ", p.temperature, ", top_k ",
                        p.top_k, ", top_p ", p.top_p, ", min_p ", p.min_p, ", uniform ", p.uniform,
                        ", expected a finite temperature and top_k of at least 0, top_p in (0, 1], min_p in [0, 1] and "
                        "uniform in [0, 1)");
    }
    return {};
}

}  // namespace

Result<void> check_batch(const ModelSpec& spec, const ExecutorOptions& options, const Batch& batch,
                         std::span<const int32_t> sampled) {
    const size_t rows = batch.tokens.size();
    if (rows < 1 || rows > static_cast<size_t>(options.max_rows))
        return fail(NL_ERROR_INTERNAL, "batch.tokens has ", rows, " elements, expected 1 to ", options.max_rows);
    const size_t outputs = batch.output_rows.size();
    if (outputs > static_cast<size_t>(options.max_output_rows))
        return fail(NL_ERROR_INTERNAL, "batch.output_rows has ", outputs, " elements, expected at most ",
                    options.max_output_rows);
    NL_TRY(check_size("positions", batch.positions.size(), rows));
    NL_TRY(check_size("key_positions", batch.key_positions.size(), rows));
    NL_TRY(check_size("slots", batch.slots.size(), rows));
    NL_TRY(check_size("sampling", batch.sampling.size(), outputs));
    if (sampled.size() != outputs)
        return fail(NL_ERROR_INTERNAL, "sampled has ", sampled.size(), " elements, expected ", outputs);
    NL_TRY(check_range("tokens", batch.tokens, 0, spec.vocab_size));
    NL_TRY(check_range("positions", batch.positions, 0, spec.max_context));
    NL_TRY(check_range("key_positions", batch.key_positions, 0, spec.max_context));
    NL_TRY(check_range("page_table", batch.page_table, 0, options.num_pages));
    NL_TRY(check_range("output_rows", batch.output_rows, 0, static_cast<int64_t>(rows)));
    NL_TRY(check_slots(batch.slots, int64_t{options.num_pages} * options.page_size));
    NL_TRY(check_segments(options, batch));
    NL_TRY(check_sequences(batch));
    return check_sampling(batch.sampling);
}

}  // namespace nanolith
