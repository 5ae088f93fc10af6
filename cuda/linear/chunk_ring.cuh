// Weights on their way to the tensor cores: each warp of a block fetches chunks of the block's tiles to a ring in
// shared memory and multiplies them with rows of activations there. A ring's Source says
// which weights a chunk has: MatrixChunks here those of one matrix, others in experts/streamed_experts.cu.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "device/mbarrier.cuh"
#include "device/mma.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda {

constexpr int kStreamedWarps = 8;  // of a block
constexpr int kTile = 8;           // weight rows of a tile, the columns of an mma
constexpr int kChunkColumns = 256;
constexpr int kChunkBytes = kTile * kChunkColumns * 2;
constexpr int kLineColumns = 64;  // of 128 bytes

// Bytes from one row of activations of `size` columns to the next in shared memory: rows are 64 bytes apart from whole
// lines, so that the eight lanes that read at once, four of each of two rows, find different banks.
__host__ __device__ constexpr int streamed_row_bytes(int size) {
    return (size * 2 + 127) / 128 * 128 + 64;
}

constexpr int kLinesOfChunk = kChunkColumns / kLineColumns;

// Chunks and 128-byte lines of `size` columns, a multiple of 64.
__host__ __device__ constexpr int chunks_of(int size) {
    return (size + kChunkColumns - 1) / kChunkColumns;
}
__device__ inline int lines_of_chunk(int size, int chunk) {
    return min(kLinesOfChunk, size / kLineColumns - chunk * kLinesOfChunk);
}

// The weights as a tensor of [parts][rows of a part][size / 64][64] elements. Gate and up are two parts, and a tile has
// four rows of each; other weights are one part. A chunk is the box of a tile's rows and 256 columns: in shared memory
// [kTile][4 lines][128 bytes], swizzled. What is outside the tensor is zero there.
struct ChunkMap {
    CUtensorMap map;
    int tile_rows;  // of each part
};

// The chunks of one matrix of `size` columns: tile after tile, each from left to right.
struct MatrixChunks {
    const ChunkMap* map;
    int size;

    [[nodiscard]] __device__ int chunks_per_tile() const { return chunks_of(size); }
    [[nodiscard]] __device__ int lines(int chunk) const { return lines_of_chunk(size, chunk); }
    // Starts the copy of a chunk to `to` in shared memory; its bytes count on the barrier `filled`. To be called by one
    // lane.
    __device__ void fetch(int tile, int chunk, std::byte* to, uint64_t* filled) const {
        tma_load_upper(&map->map, to, filled, chunk * kLinesOfChunk, tile * map->tile_rows, 0);
    }
};

// A warp's chunk: the block's chunks, tile after tile, go to its warps in turn.
struct ChunkPosition {
    int tile = 0;
    int chunk = 0;  // of the tile
    int stage = 0;  // of the ring
    uint32_t parity = 0;

    __device__ void skip(int chunks, int chunks_per_tile) {
        chunk += chunks;
        while (chunk >= chunks_per_tile) {
            chunk -= chunks_per_tile;
            ++tile;
        }
    }
    __device__ void advance(int chunks_per_tile, int stages) {
        skip(kStreamedWarps, chunks_per_tile);
        if (++stage == stages) {
            stage = 0;
            parity ^= 1U;
        }
    }
};

// The calling warp's ring. T is __half or __nv_bfloat16; Source has the functions of MatrixChunks. All lanes make every
// call.
template <typename T, typename Source>
class ChunkRing {
  public:
    // `chunks`: `stages` chunks of shared memory, 1024-byte aligned; `filled`: as many barriers. The tiles are those in
    // [first, end) of the source. Starts to fill the ring.
    __device__ ChunkRing(std::byte* chunks, uint64_t* filled, int stages, const Source& source, int first, int end)
        : chunks_(chunks), filled_(filled), stages_(stages), source_(source), end_(end) {
        if (lane() == 0) {
            for (int i = 0; i < stages; ++i) barrier_init(filled + i, 1);
            fence_barrier_init();
        }
        __syncwarp();
        next_.tile = first;
        next_.skip(static_cast<int>(threadIdx.x) / kWarp, source_.chunks_per_tile());
        fetched_ = next_;
        for (int i = 0; i < stages; ++i) fetch();
    }

    // The tile that the warp's next chunk belongs to, and its number in that tile.
    [[nodiscard]] __device__ int tile() const { return next_.tile; }
    [[nodiscard]] __device__ int chunk() const { return next_.chunk; }

    // Adds to sums[0] and sums[1] (together the fragment C of x W^T, as device/mma.cuh describes it) the products of
    // the columns of the warp's next chunk. x is the first row's activation of the chunk's first column in shared
    // memory, the next row's is `row_bytes` further; rows from `x_rows` on, at most eight, count as zeros. Then fetches
    // another chunk to where this one was.
    __device__ void multiply(const std::byte* x, int row_bytes, int x_rows, float (&sums)[2][4]) {
        const int row = lane() / 4;
        const std::byte* const x_row = x + row * row_bytes;
        const std::byte* const weight_row = chunks_ + next_.stage * kChunkBytes + row * kChunkColumns * 2;
        barrier_wait(filled_ + next_.stage, next_.parity, "weights");
        const int lines = source_.lines(next_.chunk);
        if (lines == kLinesOfChunk) {
#pragma unroll
            for (int line = 0; line < kLinesOfChunk; ++line) {
                multiply_line(x_row + line * 128, row < x_rows, weight_row, line, sums);
            }
        } else {
            for (int line = 0; line < lines; ++line) {
                multiply_line(x_row + line * 128, row < x_rows, weight_row, line, sums);
            }
        }
        __syncwarp();  // all lanes have read the chunk
        next_.advance(source_.chunks_per_tile(), stages_);
        fetch();
    }

  private:
    __device__ static int lane() {
        return static_cast<int>(threadIdx.x) % kWarp;
    }

    __device__ void fetch() {
        if (fetched_.tile >= end_) return;
        if (lane() == 0) {
            uint64_t* const filled = filled_ + fetched_.stage;
            barrier_arrive_expect(filled, kChunkBytes);
            source_.fetch(fetched_.tile, fetched_.chunk, chunks_ + fetched_.stage * kChunkBytes, filled);
        }
        fetched_.advance(source_.chunks_per_tile(), stages_);
    }

    // The order of the columns does not matter to a product, so a lane takes eight adjacent columns of x and of its
    // weight row with one load of 16 bytes each: these are the operands of two mma.
    __device__ static void multiply_line(const std::byte* x, bool has_x, const std::byte* weight_row, int line,
                                         float (&sums)[2][4]) {
        const int swizzle = (lane() / 4 * kLinesOfChunk + line) % 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int part = lane() % 4 + half * 4;  // of 16 bytes
            const uint4 b = *reinterpret_cast<const uint4*>(weight_row + line * 128 + (part ^ swizzle) * 16);
            uint4 a{};
            if (has_x) a = *reinterpret_cast<const uint4*>(x + part * 16);
            multiply_add(sums[0], {a.x, 0, a.y, 0}, b.x, b.y, T());
            multiply_add(sums[1], {a.z, 0, a.w, 0}, b.z, b.w, T());
        }
    }

    std::byte* chunks_;
    uint64_t* filled_;  // [stages] the stage's chunk is there
    int stages_;
    Source source_;
    int end_;
    ChunkPosition next_;
    ChunkPosition fetched_;
};

}  // namespace nanolith::cuda
