// What one step computes: tokens, where their keys and values go, what they attend to, and how tokens are drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace nanolith {

// A run of tokens in the KV cache as one sequence uses it. Its tokens are in the pages page_table[first_page],
// page_table[first_page + 1], ...: token t in the (t / page_size)-th of these, at offset t % page_size. Keys are stored
// rotated for position t, counted from the segment's own beginning. `base` is the position of token 0 in this sequence:
// a query at position p is rotated by p - base for this segment, and attends to its tokens t < min(length, p - base +
// 1). That is causal among the rows being computed, and all tokens of earlier segments. Sequences that share a chunk
// name the same first_page, each with its own base.
struct Segment {
    int32_t first_page = 0;
    int32_t length = 0;
    int32_t base = 0;
};

// Rows [first_row, first_row + num_rows) of the batch, which are consecutive positions of one context, and the segments
// that they attend to: in order of base, with the one that holds the rows' own keys.
struct Sequence {
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t first_segment = 0;
    int32_t num_segments = 0;
};

// Asks how much the rows of a sequence attend to each token that they see: over the layers of probe_layers(), all query
// heads and the sequence's rows, the sum of the weights that the softmax gives the token. The tokens are those of the
// sequence's segments, in order; read_token_weights() gives one number for each.
struct Probe {
    int32_t sequence = 0;
};

// A change of one token's logit before a draw, as penalties, biases and bans make it: `add` is added (minus infinity
// bans the token), then what is positive is divided by `divide` and what is not is multiplied by it, then `subtract` is
// subtracted. A NaN stays one, so that a damaged model is noticed.
struct LogitEdit {
    int32_t token = 0;
    float add = 0;
    float divide = 1;
    float subtract = 0;
};

// Filters of a draw, applied in the order of SampleParams::order. Each looks at the tokens that the filters before it
// have kept, with their probabilities at the temperature if that stands before it (else at 1), and keeps an interval of
// logits: tokens of equal logits are kept or dropped together.
enum class Filter : uint8_t {
    temperature,  // divides the logits
    top_k,        // keeps the highest ones
    typical_p,    // keeps tokens whose surprise, -log p, is nearest to its mean, until their share reaches p
    top_p,        // keeps the most probable tokens until their share reaches p
    min_p,        // keeps tokens whose probability is at least min_p times the highest
    xtc           // of the tokens whose probability is at least xtc_threshold drops all but the least probable
};
constexpr size_t kNumFilters = 6;

// How to draw a token from a row of logits; the options NL_OPTION_TEMPERATURE and following say what each member means.
// Tokens are drawn by inverting the cumulative distribution in vocabulary order: the first token, of those that the
// filters keep, at which the running sum of probabilities exceeds uniform times their total.
struct SampleParams {
    float temperature = 0;  // 0: the highest logit, the lowest id on a tie; edits and the mask count, filters do not
    int32_t top_k = 0;      // 0: all
    float top_p = 1;
    float min_p = 0;
    double uniform = 0;  // in [0, 1)
    float typical_p = 1;
    float xtc_threshold = 1;  // above a half it drops nothing
    // After all filters: keeps tokens whose surprise, -log2 p, is at most this, and always the best (Mirostat 2).
    float most_surprise = std::numeric_limits<float>::infinity();
    Filter order[kNumFilters] = {Filter::temperature, Filter::top_k, Filter::typical_p,
                                 Filter::top_p,       Filter::min_p, Filter::xtc};
    int32_t first_edit = 0;  // its edits are Batch::edits[first_edit] and following
    int32_t num_edits = 0;   // of different tokens, ascending
    int32_t mask = -1;       // which of Batch::masks says what it may draw; -1: everything
};

// Words of 32 bits that a mask of tokens has: token t is bit t % 32 of word t / 32, and 1 where it may be drawn.
constexpr size_t mask_words(int32_t vocab_size) {
    return (static_cast<size_t>(vocab_size) + 31) / 32;
}

// Asks for log-probabilities after an output row: of one token and of the `top` most probable ones. They are of the
// model's own distribution, the softmax of the logits before edits, mask, temperature and filters.
struct LogprobQuery {
    int32_t output_row = 0;
    int32_t token = -1;  // -1: the one that the row draws
    int32_t top = 0;     // 0 to kMostTopLogprobs
};
constexpr int32_t kMostTopLogprobs = 20;

struct TokenLogprob {
    int32_t token = 0;
    float logprob = 0;  // natural logarithm
};

// In Batch::slots: the row's key and value are not written.
constexpr int32_t kNoSlot = -1;

// In place of a drawn token: its logits have a NaN, or none above minus infinity.
constexpr int32_t kNoToken = -1;

// A placeholder in Batch::tokens for the token that output row `output_row` of the step submitted just before draws.
// With it a step can be submitted while the previous one still runs.
constexpr int32_t drawn_by(int32_t output_row) {
    return -1 - output_row;
}

// Entries [first, first + count) of the page table.
struct TableRange {
    int32_t first = 0;
    int32_t count = 0;
};

// Copies one page of the pool over another.
struct PageCopy {
    int32_t from = 0;
    int32_t to = 0;
};

// What one step computes. The caller has one page table, which lives from step to step: only `changed_entries` differ
// from what it held at the step before. An executor on another device keeps a copy of it there.
struct Batch {
    std::vector<int32_t> tokens;         // [rows] an id, or drawn_by()
    std::vector<int32_t> positions;      // [rows] position in the context
    std::vector<int32_t> key_positions;  // [rows] position that the row's key is rotated for: counted from its segment
    std::vector<int32_t> slots;          // [rows] page * page_size + offset where the row's key and value are written,
                                         // or kNoSlot (they are in the cache already)
    std::span<const int32_t> page_table;
    std::vector<TableRange> changed_entries;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> output_rows;    // rows whose logits are computed and from which a token is drawn
    std::vector<SampleParams> sampling;  // [output_rows]
    std::vector<LogitEdit> edits;        // of all rows (SampleParams::first_edit)
    std::vector<uint32_t> masks;         // [masks][mask_words(vocab_size)] of tokens that rows may draw
    // Where true, submit() takes the forward pass alone and ignores `sampling`, `edits` and `masks`; submit_draws()
    // takes these. What draws depend on can so be made while a device computes the logits.
    bool draws_late = false;
    std::vector<Probe> probes;           // at most one of a sequence
    std::vector<int32_t> kept_logits;    // indices of output_rows whose logits read_logits() will ask for, ascending
    std::vector<LogprobQuery> logprobs;  // at most one of an output row, ascending; for read_logprobs()
    std::vector<int32_t> state_rows;     // rows whose hidden states read_state() will ask for, ascending
};

// Whether anything of a step is read but the keys and values that it writes.
inline bool has_results(const Batch& batch) {
    return !batch.output_rows.empty() || !batch.state_rows.empty();
}

// What one output row draws from, beside its logits.
struct DrawRule {
    const SampleParams& params;
    std::span<const LogitEdit> edits;
    std::span<const uint32_t> mask;  // empty: everything may be drawn
};
inline DrawRule draw_rule(const Batch& batch, size_t output_row, int32_t vocab_size) {
    const SampleParams& params = batch.sampling[output_row];
    const auto edits =
        std::span(batch.edits).subspan(static_cast<size_t>(params.first_edit), static_cast<size_t>(params.num_edits));
    if (params.mask < 0) return {params, edits, {}};
    const size_t words = mask_words(vocab_size);
    return {params, edits, std::span(batch.masks).subspan(static_cast<size_t>(params.mask) * words, words)};
}

}  // namespace nanolith
