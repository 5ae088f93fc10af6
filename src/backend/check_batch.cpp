#include "backend/check_batch.h"

#include <cmath>
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

Result<void> check_kept_logits(const Batch& batch, int32_t max_kept_logits) {
    const std::vector<int32_t>& kept = batch.kept_logits;
    if (kept.size() > static_cast<size_t>(max_kept_logits))
        return fail(NL_ERROR_INTERNAL, "batch.kept_logits has ", kept.size(), " elements: expected at most ",
                    max_kept_logits);
    NL_TRY(check_range("kept_logits", kept, 0, static_cast<int64_t>(batch.output_rows.size())));
    for (size_t i = 1; i < kept.size(); ++i) {
        if (kept[i] <= kept[i - 1])
            return fail(NL_ERROR_INTERNAL, "batch.kept_logits[", i, "] is ", kept[i], " after ", kept[i - 1],
                        ": expected each once, ascending");
    }
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
                        ": expected a finite temperature and top_k of at least 0, top_p in (0, 1], min_p in [0, 1] and "
                        "uniform in [0, 1)");
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
    NL_TRY(check_size("sampling", batch.sampling.size(), outputs));
    NL_TRY(check_tokens(batch.tokens, spec.vocab_size, drawn_before));
    NL_TRY(check_changed_entries(batch, options.num_pages));
    NL_TRY(check_range("output_rows", batch.output_rows, 0, static_cast<int64_t>(rows)));
    NL_TRY(check_kept_logits(batch, options.max_kept_logits));
    NL_TRY(check_probes(batch));
    const StepRules rules{
        .page_size = options.page_size, .max_position = spec.max_context, .every_row_sees_a_key = true};
    NL_TRY(check_step({batch.page_table, batch.segments, batch.sequences, batch.positions}, rules, kNames));
    std::vector<int32_t> sorted;
    NL_TRY(check_slots(batch.slots, int64_t{options.num_pages} * options.page_size, kNames, sorted));
    NL_TRY(check_key_positions(batch.key_positions, spec.max_context, kNames));
    return check_sampling(batch.sampling);
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
