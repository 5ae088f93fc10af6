// What one step computes: tokens, where their keys and values go, what they attend to, and how tokens are drawn.
#pragma once

#include <cstdint>
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

// Asks how much the rows of a sequence attend to each page that they see: over the layers of probe_layers(), all query
// heads and the sequence's rows, the sum of the weights that the softmax gives the page's tokens. The pages are those
// of the sequence's segments, in order; read_page_weights() gives one number for each.
struct Probe {
    int32_t sequence = 0;
};

// How to draw a token from a row of logits; the options NL_OPTION_TEMPERATURE and following say what each member means.
// Tokens are drawn by inverting the cumulative distribution in vocabulary order: the first token, of those that the
// filters keep, at which the running sum of probabilities exceeds uniform times their total.
struct SampleParams {
    float temperature = 0;  // 0: the highest logit, the lowest id on a tie
    int32_t top_k = 0;      // 0: all
    float top_p = 1;
    float min_p = 0;
    double uniform = 0;  // in [0, 1)
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
    std::vector<Probe> probes;           // at most one of a sequence
    std::vector<int32_t> kept_logits;    // indices of output_rows whose logits read_logits() will ask for, ascending
};

}  // namespace nanolith
