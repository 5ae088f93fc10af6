// How a step's attention is divided among threads: blocks of queries, and the tokens that each walks through.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kernels.h"

namespace nanolith::cpu {

// Tokens are walked through in tiles of so many, which begin at multiples of it.
constexpr int32_t kKeyTile = 64;

// A segment, or a part of one, that adjacent rows of a block attend to.
struct AttentionWalk {
    int32_t first_page = 0;  // an index of the page table, as Segment's
    int32_t length = 0;      // the segment's
    int32_t begin = 0;       // tokens [begin, end) are walked through; a multiple of kKeyTile
    int32_t end = 0;
    int32_t first_row = 0;  // of the block
    int32_t num_rows = 0;
    int32_t first_base = 0;  // in AttentionPlan::bases: of each of these rows, as Segment's
};

// Rows, and the query heads that share `kv_head`. Where the rows' tokens are divided among several blocks, this one
// leaves partial results.
struct AttentionBlock {
    int32_t first_row = 0;  // in AttentionPlan::rows
    int32_t num_rows = 0;
    int32_t first_walk = 0;
    int32_t num_walks = 0;
    int32_t kv_head = 0;
    int64_t first_partial = -1;  // of its queries, -1: the results are whole
    int64_t cost = 0;            // queries times keys
};

// Blocks with partial results of the same queries: part i's begin at first_partial + i * num_queries.
struct AttentionMerge {
    int32_t first_row = 0;  // in AttentionPlan::rows
    int32_t num_rows = 0;
    int32_t kv_head = 0;
    int32_t num_parts = 0;
    int64_t first_partial = 0;
};

struct AttentionPlan {
    std::vector<int32_t> rows;   // of the step
    std::vector<int32_t> bases;  // of walks' rows
    std::vector<AttentionWalk> walks;
    std::vector<AttentionBlock> blocks;  // the most expensive first
    std::vector<AttentionMerge> merges;
    int64_t num_partials = 0;
    int64_t cost = 0;  // of all blocks
};

struct AttentionPlanOptions {
    int32_t group = 1;  // query heads that share a KV head
    int32_t num_kv_heads = 1;
    int32_t num_threads = 1;
    // No block has rows of several sequences, and none is divided: what a row's result is depends on nothing else.
    bool batch_invariant = false;
};

// How many rows a block takes at most, for `group` query heads a KV head: about 64 queries.
int32_t block_rows(int32_t group);

// Decode rows (of sequences that have one) whose contexts begin with the same segment share blocks, which read each
// segment once for all rows that name it at the same place. Where there are too few blocks for the threads, tokens are
// divided. Throws std::bad_alloc.
AttentionPlan plan_attention(const AttentionStep& step, const AttentionPlanOptions& options);

}  // namespace nanolith::cpu
