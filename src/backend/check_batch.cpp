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

Result<void> check_range(std::string_view what, std::span<const int32_t> values, int64_t low, int64_t high) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] < low || values[i] >= high)
            return fail(NL_ERROR_INTERNAL, "batch.", what, "[", i, "] is ", values[i], ", expected ", low, " to ",
                        high - 1);
    }
    return {};
}

Result<void> check_tokens(const std::vector<int32_t>& tokens, int32_t vocab_size, size_t drawn_before) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] >= vocab_size)
            return fail(NL_ERROR_INTERNAL, "batch.tokens[", i, "] is ", tokens[i], ", expected 0 to ", vocab_size - 1);
        const int64_t drawn = int64_t{-1} - tokens[i];  // drawn_by()'s output row
        if (drawn >= static_cast<int64_t>(drawn_before))
            return fail(NL_ERROR_INTERNAL, "batch.tokens[", i, "] is what output row ", drawn,
                        " of the step before drew, which had ", drawn_before, " output rows");
    }
    return {};
}

Result<void> check_changed_entries(const Batch& batch, int32_t num_pages) {
    const auto num_entries = static_cast<int64_t>(batch.page_table.size());
    for (size_t i = 0; i < batch.changed_entries.size(); ++i) {
        const TableRange& range = batch.changed_entries[i];
        if (range.first < 0 || range.count < 0 || int64_t{range.first} + range.count > num_entries)
            return fail(NL_ERROR_INTERNAL, "batch.changed_entries[", i, "] has first ", range.first, ", count ",
                        range.count, ", expected a range within the ", num_entries, " entries of the page table");
        for (int64_t entry = range.first; entry < int64_t{range.first} + range.count; ++entry) {
            const int32_t page = batch.page_table[static_cast<size_t>(entry)];
            if (page < 0 || page >= num_pages)
                return fail(NL_ERROR_INTERNAL, "batch.page_table[", entry, "] is ", page, ", expected 0 to ",
                            num_pages - 1);
        }
    }
    return {};
}

Result<void> check_kept_logits(const Batch& batch, int32_t max_kept_logits) {
    const std::vector<int32_t>& kept = batch.kept_logits;
    if (kept.size() > static_cast<size_t>(max_kept_logits))
        return fail(NL_ERROR_INTERNAL, "batch.kept_logits has ", kept.size(), " elements, expected at most ",
                    max_kept_logits);
    NL_TRY(check_range("kept_logits", kept, 0, static_cast<int64_t>(batch.output_rows.size())));
    for (size_t i = 1; i < kept.size(); ++i) {
        if (kept[i] <= kept[i - 1])
            return fail(NL_ERROR_INTERNAL, "batch.kept_logits[", i, "] is ", kept[i], " behind ", kept[i - 1],
                        ", expected each once, ascending");
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
                         size_t drawn_before) {
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
    NL_TRY(check_tokens(batch.tokens, spec.vocab_size, drawn_before));
    NL_TRY(check_range("positions", batch.positions, 0, spec.max_context));
    NL_TRY(check_range("key_positions", batch.key_positions, 0, spec.max_context));
    NL_TRY(check_changed_entries(batch, options.num_pages));
    NL_TRY(check_range("output_rows", batch.output_rows, 0, static_cast<int64_t>(rows)));
    NL_TRY(check_kept_logits(batch, options.max_kept_logits));
    NL_TRY(check_slots(batch.slots, int64_t{options.num_pages} * options.page_size));
    NL_TRY(check_segments(options, batch));
    NL_TRY(check_sequences(batch));
    return check_sampling(batch.sampling);
}

Result<void> check_copies(const ExecutorOptions& options, std::span<const PageCopy> copies) {
    for (size_t i = 0; i < copies.size(); ++i) {
        const PageCopy& copy = copies[i];
        if (std::min(copy.from, copy.to) < 0 || std::max(copy.from, copy.to) >= options.num_pages)
            return fail(NL_ERROR_INTERNAL, "copies[", i, "] is from page ", copy.from, " to page ", copy.to,
                        ", expected 0 to ", options.num_pages - 1);
    }
    return {};
}

}  // namespace nanolith
