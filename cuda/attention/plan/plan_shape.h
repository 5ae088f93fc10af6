// What the plans of a step depend on beside the step itself, and the sizes that follow from it.
//
// "Vector" is a query vector: one query head of one row. "KV tile" is kNarrowTokens tokens of K and V of one KV head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention.h"
#include "attention/plan/work.h"

namespace nanolith::cuda {

constexpr int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// The most vectors of a narrow item; items of the portable kernel may have more, and its warps then share the vectors.
constexpr int kNarrowVectors = 16;
constexpr int kPortableVectors = 64;

// The constants of the cost model. Rates are in bytes a microsecond: of device memory, and what one block reaches when
// it runs alone. Costs are in microseconds: between two items of a block, and of the merging of partial results.
constexpr double kMemoryRate = 4.5e6;
constexpr double kBlockRate = 5.5e4;
constexpr double kItemCost = 1.0;
constexpr double kMergeCost = 2.0;

struct PlanShape {
    int num_heads = 0;  // query heads
    int num_kv_heads = 0;
    int head_dim = 0;
    int page_size = 0;  // tokens
    int multiprocessors = 0;
    int tile_bytes = 0;  // of a KV tile: K and V of one KV head and kNarrowTokens tokens
    NarrowKernel kernel = NarrowKernel::portable;
    bool fp8 = false;        // pages are fp8 e4m3
    bool has_short = false;  // there is the short kernel, for steps whose keys and values are written by the attention
    bool appends = false;    // the narrow kernel can write keys and values
    int wide_vectors = 0;    // vectors of a full item of the wide kernel; 0: there is no wide kernel
    bool causal = true;
    int window = 0;  // a row at position p attends to positions above p - window; 0: no window
    // A row's result depends on its own position and segments alone: no query tile is split, no segment is read once
    // for several sequences, and all query tiles have the same size.
    bool batch_invariant = false;
    int64_t cascade_rows = 512;  // as PlanCapacity's

    // Query heads that share a KV head.
    [[nodiscard]] int heads_per_kv() const { return num_heads / num_kv_heads; }
};

// The most vectors of an item of the narrow kernels.
inline int max_narrow_vectors(const PlanShape& shape) {
    return shape.kernel == NarrowKernel::portable ? kPortableVectors : kNarrowVectors;
}

// Blocks of the narrow kernels for each KV head, the same for every step.
inline int narrow_blocks(const PlanShape& shape) {
    const int blocks_per_multiprocessor = shape.kernel == NarrowKernel::hopper ? 1 : 2;
    return std::max(1, blocks_per_multiprocessor * shape.multiprocessors / shape.num_kv_heads);
}

// How the query heads of a KV head are divided into head groups, which are merged as one: the most that fit in a tile.
inline HeadGroups head_groups(const PlanShape& shape) {
    const int heads = std::min(shape.heads_per_kv(), std::max(max_narrow_vectors(shape), shape.wide_vectors));
    return {heads, static_cast<int32_t>(divide_up(shape.heads_per_kv(), heads))};
}

// Whether `vectors` query vectors that all attend to the same `tokens` tokens are computed by the narrow kernel,
// although they don't fit in one of its query tiles. The narrow kernel then reads the tokens' keys and values once for
// each tile; the wide kernel would read them once for all vectors. But a launch of the narrow kernel takes 10 us less
// on an H200, and it need not wait for the wide one. Keys and values that are read again come from L2. kMostAgain is
// the number of bytes beyond which reading them again takes longer than those 10 us.
inline bool are_narrow_tiles(const PlanShape& shape, int64_t vectors, int64_t tokens) {
    constexpr int64_t kMostTiles = 8;
    constexpr int64_t kMostAgain = int64_t{40} << 20;  // bytes of keys and values that are read again
    const int64_t tiles = divide_up(vectors, kNarrowVectors);
    const int64_t bytes = divide_up(tokens, kNarrowTokens) * shape.tile_bytes * shape.num_kv_heads;
    return tiles <= kMostTiles && shape.heads_per_kv() <= kNarrowVectors && (tiles - 1) * bytes <= kMostAgain;
}

// If `vectors` query vectors attend to the same `tokens` tokens, they are cut into query tiles. Returns how many
// vectors each of these tiles holds; the last one may have fewer. The number tells the kernel: kNarrowVectors is the
// narrow one's, wide_vectors the wide one's.
inline int tile_vectors(const PlanShape& shape, int64_t vectors, int64_t tokens) {
    if (vectors <= kNarrowVectors || shape.batch_invariant) return kNarrowVectors;
    if (shape.wide_vectors == 0) return max_narrow_vectors(shape);
    return are_narrow_tiles(shape, vectors, tokens) ? kNarrowVectors : shape.wide_vectors;
}

// The same in rows: if `rows` rows attend to the same `tokens` tokens, how many rows each of their query tiles holds.
inline int32_t rows_per_tile(const PlanShape& shape, int64_t rows, int64_t tokens) {
    // A tile's first token follows from the window of its first row, which must be the row's own to be invariant.
    if (shape.batch_invariant && shape.window > 0) return 1;
    return std::max(1, tile_vectors(shape, rows * shape.heads_per_kv(), tokens) / shape.heads_per_kv());
}

}  // namespace nanolith::cuda
