// The work list of an attention step, as the planner lays it out and the kernels read it.
//
// Query vectors: the query heads that share a KV head are packed, row after row. Of the rows queries[first_query ...]
// of an item, vector m is query head kv_head * group + (first_vector + m) % group of row
// queries[first_query + (first_vector + m) / group].row. Every item is done once for each KV head.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

// A row of the batch as an item sees it, and where it stands, counted like the bases of the item's spans.
struct QueryRow {
    int32_t row;
    int32_t position;
};

// Tokens [first_token, end_token) of a segment whose pages begin at page_table[first_page]; first_token is a multiple
// of 64. With p = QueryRow::position - base, the row is rotated for position p and sees the tokens t <= p.
// A row with p < first_token sees nothing of it.
struct Span {
    int32_t first_page;
    int32_t first_token;
    int32_t end_token;
    int32_t base;
};

struct AttentionItem {
    int32_t first_query;
    int32_t first_vector;  // below the group's size
    int32_t num_vectors;
    int32_t first_span;
    int32_t num_spans;
    int32_t partial;  // where vector 0 goes among the partial results; or one of the two below
};

// An item that is all that its rows attend to, and writes the output itself.
constexpr int32_t kAlone = -1;
// A narrow item that waits for the results of its rows' other items and merges them with its own.
constexpr int32_t kMergesRest = -2;

// An item of the wide kernel, with what its first loads need.
struct alignas(16) WideItem {
    AttentionItem item;
    int32_t lowest;  // position of its rows
    int32_t highest;
    Span span;              // spans[item.first_span]
    int32_t heads_at_once;  // KV heads that are done at the same time, for all items of a step; 0: all
};

// Tokens that the narrow kernels take at once.
constexpr int kNarrowTokens = 64;

// An item of the narrow kernels. A block begins with the item of its own number and goes on with `next`. What the first
// loads need lies in here, 128 bytes in all, since each load that waits for another costs as much as a tile.
struct alignas(128) NarrowItem {
    AttentionItem item;
    int32_t next;         // the block's next item; -1: none
    int32_t row;          // of queries[item.first_query]
    int32_t position;     // of that row
    Span span;            // spans[item.first_span]
    int32_t pages[16];    // page_table entries of the span's first 256 tokens, 16 tokens each
    int32_t first_merge;  // of a block's first item: what of WorkView::merges the block does at its end
    int32_t num_merges;
};

// Where the partial results of a unit (RowUnits) are that others merge: partials[first_partial ... + num_partials),
// each the place of its first vector; the others follow it. A unit has none where one item does it alone. Else a narrow
// item with kMergesRest adds its own and writes the output, or the unit is among the merges of a block.
struct RowPartials {
    int32_t first_partial;
    int32_t num_partials;
};

// A unit that a narrow block merges at its end. Whoever merges waits for wide items, and for narrow ones of its own
// block and of blocks in front of it: nobody waits for a block that may still wait for a place.
struct alignas(16) Merge {
    int32_t row;
    int32_t unit;  // of the row's
    int32_t first_partial;
    int32_t num_partials;
};

// A row's query heads of one KV head are merged in units of `heads`: the whole group where a tile can hold it.
struct RowUnits {
    int32_t heads;  // of a unit, the last may have fewer
    int32_t count;  // units of a row and KV head
};

}  // namespace nanolith::cuda
