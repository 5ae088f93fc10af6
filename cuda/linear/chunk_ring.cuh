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

constexpr int kLinesOfChunk = kChunkColumns / kLineColumns;

// The chunks that `size` columns take, a multiple of kLineColumns.
__host__ __device__ constexpr int chunks_of(int size) {
    return (size + kChunkColumns - 1) / kChunkColumns;
}

// Activations in shared memory. A row is that of whole chunks, in which columns from `size` on are zeros; of each four
// words of two columns the second and the third change places (activation_words), for ChunkRing::multiply(). Bytes from
// one row to the next: rows are 64 bytes apart from whole lines, so that lanes which read at once, eight of each of two
// rows, find different banks.
__host__ __device__ constexpr int streamed_row_bytes(int size) {
    return chunks_of(size) * kChunkColumns * 2 + 64;
}
__device__ inline uint4 activation_words(uint4 words) {
    return {words.x, words.z, words.y, words.w};
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
#pragma unroll 1
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

// A warp's sums of a tile, as products of chunks with up to four rows of x leave them: those of even and of odd steps,
// which have to be added.
struct ChunkSums {
    float of[2][4] = {};

    // The lane's sum of weight row lane / 4 and row lane % 4 of x.
    [[nodiscard]] __device__ float sum() const { return (of[0][0] + of[0][3]) + (of[1][0] + of[1][3]); }
};

// Spins for 0.3 us. A launch of few rows that begins early pauses between its first chunks and the others: just then
// the launch before it reads its activations, which would wait behind the 100 KiB of weights that each block asks for.
// With one row a token of Qwen3-0.6B's shape takes 4% less time with it, with eight rows 1% more; 600, 1,000 and 1,400
// cycles gave the same.
__device__ inline void pause_fetching() {
    constexpr long long kCycles = 600;
    const long long begin = clock64();
    while (clock64() - begin < kCycles) {
    }
}

// The calling warp's ring. T is __half or __nv_bfloat16; Source has the functions of MatrixChunks. All lanes make every
// call.
template <typename T, typename Source>
class ChunkRing {
  public:
    // `chunks`: `stages` chunks of shared memory, 1024-byte aligned; `filled`: as many barriers. The tiles are those in
    // [first, end) of the source. Starts to fill the ring. `pauses`: whether the launch before this one may be about to
    // read its activations.
    __device__ ChunkRing(std::byte* chunks, uint64_t* filled, int stages, const Source& source, int first, int end,
                         bool pauses)
        : chunks_(chunks), filled_(filled), stages_(stages), source_(source), end_(end) {
        if (lane() < stages) barrier_init(filled + lane(), 1);
        fence_barrier_init();
        __syncwarp();
        next_.tile = first;
        next_.skip(static_cast<int>(threadIdx.x) / kWarp, source_.chunks_per_tile());
        fetched_ = next_;
        fetch();
        if (pauses) pause_fetching();
#pragma unroll 1
        for (int i = 1; i < stages; ++i) fetch();
    }

    // The tile that the warp's next chunk belongs to, and its number in that tile.
    [[nodiscard]] __device__ int tile() const {
        return next_.tile;
    }
    [[nodiscard]] __device__ int chunk() const {
        return next_.chunk;
    }

    // Adds to `sums` the products of the columns of the warp's next chunk with `x_rows` rows of activations, at most
    // four, and fetches another chunk to where this one was. `x`: the first row's activation of the chunk's first
    // column (streamed_row_bytes), the next row's is `row_bytes` further.
    __device__ void multiply(const std::byte* x, int row_bytes, int x_rows, ChunkSums& sums) {
        const std::byte* const weights = chunks_ + next_.stage * kChunkBytes;
        barrier_wait(filled_ + next_.stage, next_.parity, "weights");
        multiply_chunk(weights, x, row_bytes, x_rows, sums);
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

    // The order of the columns does not matter to a product, so a lane takes eight adjacent columns of a weight row
    // with one load of 16 bytes: the words of the operand A. By its place in A every second word would belong to
    // another weight row, eight rows further; so each row of x is two columns of the operand B, the first of which has
    // what the words 0 and 2 are to be multiplied with, the second the same of the words 1 and 3.
    __device__ static void multiply_chunk(const std::byte* weights, const std::byte* x, int row_bytes, int x_rows,
                                          ChunkSums& sums) {
        const auto lane = static_cast<uint32_t>(threadIdx.x) % kWarp;
        const uint32_t row = lane / 4;
        const uint32_t part = lane % 4;
        // Chunks are swizzled (ChunkMap): the 16 bytes p of a line are at p ^ (4 row + line) % 8.
        const std::byte* const weight_row = weights + row * (kChunkColumns * 2);
        const uint32_t first = (part ^ row % 2 * 4) * 16;
        const std::byte* const x_row =
            x + min(static_cast<int>(row / 2), x_rows - 1) * row_bytes + part * 16 + row % 2 * 8;
#pragma unroll
        for (uint32_t step = 0; step < 2 * kLinesOfChunk; ++step) {
            const uint32_t line = step / 2;
            const uint32_t half = step % 2;
            const uint4 a =
                *reinterpret_cast<const uint4*>(weight_row + line * 128 + (first ^ (line * 16 + half * 64)));
            const uint2 b = *reinterpret_cast<const uint2*>(x_row + step * 64);
            multiply_add(sums.of[half], {a.x, a.y, a.z, a.w}, b.x, b.y, T());
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
