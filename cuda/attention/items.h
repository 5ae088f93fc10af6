// What the attention kernels are told to do. A query vector is one row's query of one query head; the vectors of a
// sequence that share a KV head are numbered row by row, head by head in a row: vector v is row
// first_row + v / group, head kv_head * group + v % group, with group = query heads / KV heads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"

namespace nanolith::cuda {

// Tokens of a segment that a block reads at once. Tiles are counted from the segment's beginning.
constexpr int kTileTokens = 32;

// The work of one block for each KV head: `num_vectors` query vectors over `num_tiles` tiles of consecutive
// segments, beginning in the middle of one. num_vectors 0 is no work.
struct AttentionItem {
    int32_t first_row = 0;
    int32_t first_vector = 0;
    int32_t num_vectors = 0;
    int32_t segment = 0;     // in the batch's segments
    int32_t first_tile = 0;  // in that segment
    int32_t num_tiles = 0;
    int32_t slot = -1;  // where the partial result goes; -1: this item is all, write the output
};

// The partial results that make up the output of `num_vectors` query vectors.
struct MergeItem {
    int32_t first_row = 0;
    int32_t first_vector = 0;
    int32_t num_vectors = 0;
    int32_t first_slot = 0;
    int32_t num_slots = 0;
};

// Tokens of `segment` that a query at `position` sees: those at its own position or before. 0 where all lie ahead.
__host__ __device__ inline int visible_tokens(const Segment& segment, int position) {
    const int reached = position - segment.base + 1;
    const int visible = segment.length < reached ? segment.length : reached;
    return visible < 0 ? 0 : visible;
}

__host__ __device__ inline int visible_tiles(const Segment& segment, int position) {
    return (visible_tokens(segment, position) + kTileTokens - 1) / kTileTokens;
}

}  // namespace nanolith::cuda
