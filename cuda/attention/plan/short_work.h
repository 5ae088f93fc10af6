// The work list of the short kernel: the planner writes it (short_plan.h), the kernel reads it. A cluster of blocks
// does one sequence and KV head; each of its blocks has an equal share of the sequence's tiles, which follow each
// other.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nanolith::cuda {

// Tokens of a tile, which divide every page.
constexpr int kShortTokens = 16;
// Most rows of a step.
constexpr int kShortRows = 8;

// Tokens [first_token, first_token + count) of a segment, which lie in one page; first_token is a multiple of
// kShortTokens.
struct alignas(16) ShortTile {
    int32_t page;
    int32_t first_token;
    int32_t base;      // of the segment
    uint8_t count;     // at most kShortTokens
    uint8_t rotation;  // tiles of a block with equal bases have equal numbers, 0 for the first and ascending
    uint16_t fresh;    // bit t: the key and the value of token t are those of a row of this step
};

// A row of the step.
struct alignas(16) ShortRow {
    int32_t position;
    int32_t key_position;
    int32_t slot;   // where its key and value are written, or kNoSlot
    int32_t token;  // where these are among the sequence's tiles: kShortTokens * tile + token; -1 without a slot
};

struct alignas(16) ShortSequence {
    int32_t first_row;
    int32_t num_rows;
    int32_t first_tile;
    int32_t num_tiles;
};

struct ShortView {
    const ShortSequence* sequences = nullptr;
    const ShortTile* tiles = nullptr;
    const ShortRow* rows = nullptr;
};

// What the launch of the short kernel depends on beside the shape of the heads. No sequences: the plan is for the other
// kernels.
struct ShortCounts {
    int32_t sequences = 0;
    int32_t cluster = 0;    // blocks
    int32_t rows = 0;       // of each sequence, at most
    int32_t rotations = 0;  // of the queries in each block, at most

    bool operator==(const ShortCounts&) const = default;
};

// On the host.
struct ShortPlan {
    ShortCounts counts;
    std::vector<ShortSequence> sequences;
    std::vector<ShortTile> tiles;
    std::vector<ShortRow> rows;
};

// Blocks of a cluster at most, on every device of compute capability 9.0.
inline constexpr int32_t kMostShortBlocks = 8;

// The tiles of a block: [first, end) of its sequence's.
struct ShortShare {
    int first;
    int end;
};

__host__ __device__ inline int short_tiles_each(int num_tiles, int cluster) {
    return (num_tiles + cluster - 1) / cluster;
}
__host__ __device__ inline ShortShare short_share(int num_tiles, int cluster, int rank) {
    const int each = short_tiles_each(num_tiles, cluster);
    const int first = each * rank < num_tiles ? each * rank : num_tiles;
    return {first, first + each < num_tiles ? first + each : num_tiles};
}

// The shared memory of a block. Outputs are computed in slices of 16 elements of the head, which are shared out among
// the blocks of a cluster.
struct ShortSizes {
    int dim;        // of a head, as the kernel has it: head_dim or more, a multiple of 32
    int tiles;      // of a block, at most
    int vectors;    // query vectors, a multiple of 16
    int rotations;  // of the queries
    int cluster;    // blocks, a power of two
    int log_cluster;

    // Rows of keys, values and queries are 16 bytes apart, so that eight of them have different banks.
    [[nodiscard]] __host__ __device__ int row_bytes() const { return 2 * dim + 16; }
    [[nodiscard]] __host__ __device__ int slices() const { return dim / 16; }
    // The first slice that the block `rank` merges.
    [[nodiscard]] __host__ __device__ int first_slice(int rank) const {
        return (rank * slices() + cluster - 1) >> log_cluster;
    }
    [[nodiscard]] __host__ __device__ int block_of_slice(int slice) const { return slice * cluster / slices(); }
    [[nodiscard]] __host__ __device__ int most_slices() const { return (slices() + cluster - 1) >> log_cluster; }

    // Where each array begins, in bytes: keys and values [tiles, 16] rows; queries [rotations, vectors] rows; weights
    // [tiles, vectors / 16, 32 lanes] uint4; sums [tiles, vectors] float2; then what blocks send each other, outputs
    // [cluster, most_slices, vectors, 16] float and sums [cluster, vectors] float2; then the tiles, the rows, and the
    // base of each rotation.
    [[nodiscard]] __host__ __device__ int values() const { return tiles * kShortTokens * row_bytes(); }
    [[nodiscard]] __host__ __device__ int queries() const { return 2 * values(); }
    [[nodiscard]] __host__ __device__ int weights() const { return queries() + rotations * vectors * row_bytes(); }
    [[nodiscard]] __host__ __device__ int sums() const { return weights() + tiles * vectors * 32; }
    [[nodiscard]] __host__ __device__ int sent() const { return sums() + tiles * vectors * 8; }
    [[nodiscard]] __host__ __device__ int sent_sums() const { return sent() + cluster * most_slices() * vectors * 64; }
    [[nodiscard]] __host__ __device__ int list() const { return sent_sums() + cluster * vectors * 8; }
    [[nodiscard]] __host__ __device__ int rows() const { return list() + tiles * static_cast<int>(sizeof(ShortTile)); }
    [[nodiscard]] __host__ __device__ int bases() const {
        return rows() + kShortRows * static_cast<int>(sizeof(ShortRow));
    }
    [[nodiscard]] __host__ __device__ int bytes() const { return bases() + (rotations * 4 + 15) / 16 * 16; }
};

// A block leaves room beside it for a block of a streamed product (linear/streamed_tiles.cuh).
constexpr int kShortSharedBytes = 109 * 1024;

// The dim of the kernel that takes heads of head_dim.
constexpr int short_dim(int head_dim) {
    return head_dim <= 64 ? 64 : head_dim <= 96 ? 96 : head_dim <= 128 ? 128 : 256;
}

// With as many tiles as there is room for; negative where there is none.
inline ShortSizes short_sizes(const ShortCounts& counts, int head_dim, int heads_per_kv) {
    ShortSizes sizes{short_dim(head_dim),
                     0,
                     (counts.rows * heads_per_kv + 15) / 16 * 16,
                     counts.rotations,
                     counts.cluster,
                     std::countr_zero(static_cast<uint32_t>(counts.cluster))};
    const int others = sizes.bytes();
    sizes.tiles = 1;
    sizes.tiles = (kShortSharedBytes - others) / (sizes.bytes() - others);
    return sizes;
}

}  // namespace nanolith::cuda
