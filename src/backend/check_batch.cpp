#include "backend/check_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "backend/check_step.h"

namespace nanolith {
namespace {

constexpr StepNames kNames{.status = NL_ERROR_INTERNAL,
                           .page_table = {"batch.page_table"},
                           .first_pages = {"batch.segments", ".first_page"},
                           .lengths = {"batch.segments", ".length"},
                           .bases = {"batch.segments", ".base"},
                           .first_rows = {"batch.sequences", ".first_row"},
                           .num_rows = {"batch.sequences", ".num_rows"},
                           .first_segments = {"batch.sequences", ".first_segment"},
                           .num_segments = {"batch.sequences", ".num_segments"},
                           .positions = {"batch.positions"},
                           .position_count = "batch.positions.size()",
                           .slots = {"batch.slots"},
                           .key_positions = {"batch.key_positions"}};

Result<void> check_size(std::string_view what, size_t size, size_t expected) {
    if (size == expected) return {};
    return fail(NL_ERROR_INTERNAL, "batch.", what, " has ", size, " elements: expected ", expected);
}

Result<void> check_range(std::string_view what, std::span<const int32_t> values, int64_t low, int64_t high) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] < low || values[i] >= high)
            return fail(NL_ERROR_INTERNAL, "batch.", what, "[", i, "] is ", values[i], ": expected ", low, " to ",
                        high - 1);
    }
    return {};
}

Result<void> check_tokens(const std::vector<int32_t>& tokens, int32_t vocab_size, size_t drawn_before) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] >= vocab_size)
            return fail(NL_ERROR_INTERNAL, "batch.tokens[", i, "] is ", tokens[i], ": expected 0 to ", vocab_size - 1);
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
                        range.count, ": expected a range within the ", num_entries, " entries of the page table");
        const auto changed = batch.page_table.subspan(range.first, range.count);
        NL_TRY(check_page_table(changed, range.first, num_pages, kNames));
    }
    return {};
}

Result<void> check_ascending(std::string_view what, std::span<const int32_t> values, int64_t low, int64_t high) {
    NL_TRY(check_range(what, values, low, high));
    for (size_t i = 1; i < values.size(); ++i) {
        if (values[i] <= values[i - 1])
            return fail(NL_ERROR_INTERNAL, "batch.", what, "[", i, "] is ", values[i], " after ", values[i - 1],
                        ": expected each once, ascending");
    }
    return {};
}

Result<void> check_kept_logits(const Batch& batch, int32_t max_kept_logits) {
    const std::vector<int32_t>& kept = batch.kept_logits;
    if (kept.size() > static_cast<size_t>(max_kept_logits))
        return fail(NL_ERROR_INTERNAL, "batch.kept_logits has ", kept.size(), " elements: expected at most ",
                    max_kept_logits);
    return check_ascending("kept_logits", kept, 0, static_cast<int64_t>(batch.output_rows.size()));
}

// Elements of `list` that a row has; `size` is the list's.
bool within(int32_t first, int32_t count, size_t size) {
    return first >= 0 && count >= 0 && static_cast<size_t>(first) + static_cast<size_t>(count) <= size;
}

bool each_once(std::span<const Filter> order) {
    uint32_t seen = 0;
    for (const Filter filter : order) seen |= 1U << static_cast<uint32_t>(filter);
    return seen == (1U << kNumFilters) - 1;
}

Result<void> check_edits(const Batch& batch, size_t row, int32_t vocab_size) {
    const SampleParams& p = batch.sampling[row];
    if (!within(p.first_edit, p.num_edits, batch.edits.size()))
        return fail(NL_ERROR_INTERNAL, "batch.sampling[", row, "] has first_edit ", p.first_edit, ", num_edits ",
                    p.num_edits, ": expected a range within the ", batch.edits.size(), " edits");
    int32_t least = 0;
    for (const LogitEdit& edit : std::span(batch.edits).subspan(p.first_edit, p.num_edits)) {
        const bool good = edit.add <= std::numeric_limits<float>::max() && std::isfinite(edit.subtract) &&
                          edit.divide > 0 && std::isfinite(edit.divide);
        if (edit.token < least || edit.token >= vocab_size || !good)
            return fail(NL_ERROR_INTERNAL, "an edit of batch.sampling[", row, "] has token ", edit.token, ", add ",
                        edit.add, ", divide ", edit.divide, ", subtract ", edit.subtract, ": expected a token from ",
                        least, " to ", vocab_size - 1, " and numbers, of which divide is positive");
        least = edit.token + 1;
    }
    return {};
}

Result<void> check_sample_params(const Batch& batch, size_t i, int32_t vocab_size) {
    const size_t words = mask_words(vocab_size);
    const SampleParams& p = batch.sampling[i];
    const bool good = std::isfinite(p.temperature) && p.temperature >= 0 && p.top_k >= 0 && p.top_p > 0 &&
                      p.top_p <= 1 && p.min_p >= 0 && p.min_p <= 1 && p.uniform >= 0 && p.uniform < 1;
    if (!good)
        return fail(NL_ERROR_INTERNAL, "batch.sampling[", i, "] has temperature ", p.temperature, ", top_k ", p.top_k,
                    ", top_p ", p.top_p, ", min_p ", p.min_p, ", uniform ", p.uniform,
                    ": expected a finite temperature and top_k of at least 0, top_p in (0, 1], min_p in [0, 1] and "
                    "uniform in [0, 1)");
    const bool also_good = p.typical_p > 0 && p.typical_p <= 1 && p.xtc_threshold > 0 && p.xtc_threshold <= 1 &&
                           !std::isnan(p.most_surprise) && each_once(p.order);
    if (!also_good)
        return fail(NL_ERROR_INTERNAL, "batch.sampling[", i, "] has typical_p ", p.typical_p, ", xtc_threshold ",
                    p.xtc_threshold, ", most_surprise ", p.most_surprise,
                    ": expected the first two in (0, 1], no NaN, and each filter once in order");
    if (p.mask < -1 || (p.mask >= 0 && (static_cast<size_t>(p.mask) + 1) * words > batch.masks.size()))
        return fail(NL_ERROR_INTERNAL, "batch.sampling[", i, "] has mask ", p.mask, ": expected -1 to ",
                    batch.masks.size() / words, " - 1");
    return check_edits(batch, i, vocab_size);
}

Result<void> check_logprobs(const Batch& batch, int32_t vocab_size) {
    int32_t least = 0;
    for (size_t i = 0; i < batch.logprobs.size(); ++i) {
        const LogprobQuery& query = batch.logprobs[i];
        const bool good = query.output_row >= least &&
                          static_cast<size_t>(query.output_row) < batch.output_rows.size() && query.token >= -1 &&
                          query.token < vocab_size && query.top >= 0 &&
                          query.top <= std::min(kMostTopLogprobs, vocab_size);
        if (!good)
            return fail(NL_ERROR_INTERNAL, "batch.logprobs[", i, "] has output_row ", query.output_row, ", token ",
                        query.token, ", top ", query.top, ": expected output rows from ", least, " to ",
                        batch.output_rows.size(), " - 1, each once, ascending, a token below ", vocab_size,
                        ", and top from 0 to ", std::min(kMostTopLogprobs, vocab_size));
        least = query.output_row + 1;
    }
    return {};
}

Result<void> check_probes(const Batch& batch) {
    for (size_t i = 0; i < batch.probes.size(); ++i) {
        const int32_t sequence = batch.probes[i].sequence;
        const int32_t least = i == 0 ? 0 : batch.probes[i - 1].sequence + 1;
        const auto most = static_cast<int32_t>(batch.sequences.size()) - 1;
        if (sequence < least || sequence > most)
            return fail(NL_ERROR_INTERNAL, "batch.probes[", i, "].sequence is ", sequence, ": expected ", least, " to ",
                        most, ", each sequence once, ascending");
    }
    return {};
}

}  // namespace

Result<void> check_batch(const ModelSpec& spec, const ExecutorOptions& options, const Batch& batch,
                         size_t drawn_before) {
    const size_t rows = batch.tokens.size();
    if (rows < 1 || rows > static_cast<size_t>(options.max_rows))
        return fail(NL_ERROR_INTERNAL, "batch.tokens has ", rows, " elements: expected 1 to ", options.max_rows);
    const size_t outputs = batch.output_rows.size();
    if (outputs > static_cast<size_t>(options.max_output_rows))
        return fail(NL_ERROR_INTERNAL, "batch.output_rows has ", outputs, " elements: expected at most ",
                    options.max_output_rows);
    NL_TRY(check_size("positions", batch.positions.size(), rows));
    NL_TRY(check_size("key_positions", batch.key_positions.size(), rows));
    NL_TRY(check_size("slots", batch.slots.size(), rows));
    NL_TRY(check_tokens(batch.tokens, spec.vocab_size, drawn_before));
    NL_TRY(check_changed_entries(batch, options.num_pages));
    NL_TRY(check_range("output_rows", batch.output_rows, 0, static_cast<int64_t>(rows)));
    NL_TRY(check_kept_logits(batch, options.max_kept_logits));
    NL_TRY(check_ascending("state_rows", batch.state_rows, 0, static_cast<int64_t>(rows)));
    NL_TRY(check_probes(batch));
    const StepRules rules{
        .page_size = options.page_size, .max_position = spec.max_context, .every_row_sees_a_key = true};
    NL_TRY(check_step({batch.page_table, batch.segments, batch.sequences, batch.positions}, rules, kNames));
    std::vector<int32_t> sorted;
    NL_TRY(check_slots(batch.slots, int64_t{options.num_pages} * options.page_size, kNames, sorted));
    NL_TRY(check_key_positions(batch.key_positions, spec.max_context, kNames));
    NL_TRY(check_logprobs(batch, spec.vocab_size));
    return batch.draws_late ? Result<void>() : check_draws(batch, spec.vocab_size);
}

Result<void> check_row_of_logits(const ModelSpec& spec, int32_t output_row, size_t num_outputs, size_t num_logits) {
    if (output_row < 0 || static_cast<size_t>(output_row) >= num_outputs)
        return fail(NL_ERROR_INTERNAL, "output_row is ", output_row, ": expected one of the step's ", num_outputs);
    if (num_logits != static_cast<size_t>(spec.vocab_size))
        return fail(NL_ERROR_INTERNAL, "logits has ", num_logits, " elements: expected vocab_size, ", spec.vocab_size);
    return {};
}

Result<void> check_draws(const Batch& batch, int32_t vocab_size) {
    NL_TRY(check_size("sampling", batch.sampling.size(), batch.output_rows.size()));
    for (size_t i = 0; i < batch.sampling.size(); ++i) NL_TRY(check_sample_params(batch, i, vocab_size));
    return {};
}

Result<void> check_copies(const ExecutorOptions& options, std::span<const PageCopy> copies) {
    for (size_t i = 0; i < copies.size(); ++i) {
        const PageCopy& copy = copies[i];
        if (std::min(copy.from, copy.to) < 0 || std::max(copy.from, copy.to) >= options.num_pages)
            return fail(NL_ERROR_INTERNAL, "copies[", i, "] is from page ", copy.from, " to page ", copy.to,
                        ": expected 0 to ", options.num_pages - 1);
    }
    return {};
}

Result<void> check_moves(const ModelSpec& spec, const ExecutorOptions& options, std::span<const int32_t> pages,
                         size_t bytes) {
    for (size_t i = 0; i < pages.size(); ++i)
        if (pages[i] < 0 || pages[i] >= options.num_pages)
            return fail(NL_ERROR_INTERNAL, "pages[", i, "] is ", pages[i], ": expected 0 to ", options.num_pages - 1);
    const size_t row = static_cast<size_t>(spec.head_dim) * dtype_bytes(options.page_dtype());
    const size_t page = row * 2 * static_cast<size_t>(spec.num_layers) * static_cast<size_t>(spec.num_kv_heads) *
                        static_cast<size_t>(options.page_size);
    if (bytes != pages.size() * page)
        return fail(NL_ERROR_INTERNAL, pages.size(), " pages of ", page, " bytes do not fit ", bytes, " bytes");
    return {};
}

}  // namespace nanolith
