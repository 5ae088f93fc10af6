// The work list of an attention step: the planner writes it (plan.h), the attention kernels read it. The words are
// those of cuda/attention/README.md.
//
// A query vector is one query head of one row. The query heads that share a KV head are packed, row after row: vector m
// of an item is query head kv_head * heads_per_kv + (first_vector + m) % heads_per_kv of the row
// queries[first_query + (first_vector + m) / heads_per_kv].row. Every item is computed once for each KV head.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

// A row of the batch, and its position, counted like the bases of the spans that the row attends to.
struct QueryRow {
    int32_t row;
    int32_t position;
};

// Tokens [first_token, end_token) of a segment whose pages begin at page_table[first_page]; first_token is a multiple
// of 64. With p = QueryRow::position - base, a row is rotated for position p and attends to the tokens t <= p; where
// p < first_token it attends to none of them.
struct Span {
    int32_t first_page;
    int32_t first_token;
    int32_t end_token;
    int32_t base;
};

// Query vectors and the spans that they attend to: a query tile, or one of the splits of a query tile.
struct AttentionItem {
    int32_t first_query;   // index in the array of QueryRows
    int32_t first_vector;  // of the first row's, below heads_per_kv
    int32_t num_vectors;   // 0: no work, and no item after it in its list has any
    int32_t first_span;
    int32_t num_spans;
    int32_t partial;  // index of vector 0's partial result, the other vectors' follow; or one of the constants below
};

// AttentionItem::partial of an item that covers all that its rows attend to: it writes the output itself.
constexpr int32_t kWritesOutput = -1;
// AttentionItem::partial of a narrow item that waits for the partial results of its rows' other items, merges them with
// its own result and writes the output.
constexpr int32_t kMergesOthers = -2;

// An item of the wide kernel, with what its first loads need.
struct alignas(16) WideItem {
    AttentionItem item;
    int32_t lowest;  // position of the item's rows
    int32_t highest;
    Span span;                 // spans[item.first_span]
    int32_t kv_heads_at_once;  // KV heads that are computed at the same time, the same for all items; 0: all
};

// Tokens of a KV tile of the narrow kernels.
constexpr int kNarrowTokens = 64;

// An item of the narrow kernels. Block b begins with narrow[b] and goes on with the item `next`. The item holds what
// its first loads need, 128 bytes in all, because each load that depends on another one costs as much time as a tile.
struct alignas(128) NarrowItem {
    AttentionItem item;
    int32_t next;         // index of the block's next item; -1: none
    int32_t row;          // of queries[item.first_query]
    int32_t position;     // of that row
    Span span;            // spans[item.first_span]
    int32_t pages[16];    // page_table entries of the span's first 256 tokens, 16 tokens each
    int32_t first_merge;  // of a block's first item: the block does merges[first_merge ... + num_merges) at its end
    int32_t num_merges;
    // Of a block's first item in a step of few rows: how many of the span's first 256 tokens, from first_token on, lie
    // before the first page that a row of this step writes to. They can be read before the rows' keys and values are
    // written. Else 0.
    int32_t settled;
};

// How the query heads of a KV head are divided into head groups. All heads of a group are in the same items, so their
// partial results are merged together. A row group is the query vectors of one row and one head group.
struct HeadGroups {
    int32_t heads;  // of a group; the last group may have fewer
    int32_t count;  // of groups for each row and KV head
};

// The partial results of a row group that another item or block merges: partials[first_partial ... + num_partials),
// each the index of the group's first vector among the partial results; the group's other vectors follow it.
// num_partials is 0 where one item covers all that the row attends to. Who merges them is either a narrow item with
// kMergesOthers, which adds its own result, or a block that has the row group among its merges.
struct RowPartials {
    int32_t first_partial;
    int32_t num_partials;
};

// A row group that a narrow block merges at its end. Whoever merges waits for wide items, and for narrow items of its
// own block and of blocks with lower numbers: no block waits for one that may not have a multiprocessor yet.
struct alignas(16) Merge {
    int32_t row;
    int32_t head_group;  // of the row's
    int32_t first_partial;
    int32_t num_partials;
};

}  // namespace nanolith::cuda
