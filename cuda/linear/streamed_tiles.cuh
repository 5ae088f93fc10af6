// What streamed products have in common: a block's shared memory, and the loop over its tiles of weights.
#pragma once

#include <cstddef>
#include <type_traits>

#include "device/dynamic_shared.cuh"
#include "linear/chunk_ring.cuh"
#include "linear/streamed.h"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"

namespace nanolith::cuda {

constexpr int kStreamedThreads = kStreamedWarps * kWarp;
constexpr int kGroup = 4;      // tiles between two barriers of the block
constexpr int kMostXRows = 8;  // of x that a product may have, of wide weights or of compact ones

// Of weights [parts, outputs, size] whose tiles have rows of `tile_parts` parts, adjacent ones.
template <typename T>
Result<ChunkMap> map_chunks(const T* weight, int size, int outputs, int parts, int tile_parts) {
    constexpr auto kType =
        std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const auto row_bytes = static_cast<uint64_t>(size) * sizeof(T);
    const int tile_rows = kTile / tile_parts;
    const TensorBox tensor{
        .type = kType,
        .sizes = {kLineColumns, static_cast<uint64_t>(size) / kLineColumns, static_cast<uint64_t>(outputs),
                  static_cast<uint64_t>(parts)},
        .strides = {128, row_bytes, row_bytes * static_cast<uint64_t>(outputs)},
        .extents = {kLineColumns, kLinesOfChunk, static_cast<uint32_t>(tile_rows), static_cast<uint32_t>(tile_parts)},
    };
    NL_ASSIGN(const CUtensorMap map, make_tensor_map(weight, tensor, "weights"));
    return ChunkMap{map, tile_rows};
}

// ---- Shared memory of a block: chunks of all rings, x, partials, barriers of all rings ----------------------

struct SharedSizes {
    int stages = 0;    // of each warp's ring: a chunk and a barrier each
    int x = 0;         // bytes of [rows] rows of activations
    int partials = 0;  // bytes of [2][kGroup, warps, rows, kTile] float, the warps' sums of a group of tiles
    int unused = 0;    // bytes that keep a second block of the same launch away
    [[nodiscard]] __host__ __device__ int chunks() const { return kStreamedWarps * stages * kChunkBytes; }
    [[nodiscard]] __host__ __device__ int barriers() const { return kStreamedWarps * stages * 8; }
    [[nodiscard]] int bytes() const { return kAlignment + chunks() + x + partials + barriers() + unused; }

    static constexpr int kAlignment = 1024;  // of the chunks
};

// A multiprocessor of Hopper has 228 KiB, of which the system takes 1 KiB a block. Static arrays take less than 1 KiB.
constexpr int kSharedOfMultiprocessor = 228 * 1024;
constexpr int kOutsideDynamic = 2 * 1024;
// A block of one launch takes a little less than half of that, or a little more: then a block of another launch of
// halves fits beside it, but not a second one of its own.
constexpr int kLessThanHalf = 111 * 1024;
constexpr int kMoreThanHalf = 116 * 1024;
enum class SharedPart : uint8_t { less_than_half, more_than_half, all };
constexpr int kFewestStages = 2;
constexpr int kMostStages = 8;

// Of a block that has `x_rows` rows of `size` activations in shared memory, `rows` of which meet each weight.
inline SharedSizes shared_sizes(int rows, int x_rows, int size, SharedPart part) {
    SharedSizes sizes;
    sizes.x = x_rows * streamed_row_bytes(size);
    sizes.partials = 2 * kGroup * kStreamedWarps * rows * kTile * static_cast<int>(sizeof(float));
    const int limit = (part == SharedPart::all              ? kSharedOfMultiprocessor
                       : part == SharedPart::less_than_half ? kLessThanHalf
                                                            : kMoreThanHalf) -
                      kOutsideDynamic;
    const int stages =
        (limit - SharedSizes::kAlignment - sizes.x - sizes.partials) / (kStreamedWarps * (kChunkBytes + 8));
    sizes.stages = stages < kMostStages ? stages : kMostStages;
    if (part == SharedPart::more_than_half) sizes.unused = limit - sizes.bytes();
    return sizes;
}

// A block for each multiprocessor, also where there are fewer tiles: if one launch left a multiprocessor out, two
// blocks of the next early one could meet on another, which would take longer than all others.
inline LaunchShape streamed_shape(const SharedSizes& sizes, const StreamedLaunch& how) {
    return {dim3(static_cast<unsigned>(how.multiprocessors)), dim3(kStreamedThreads),
            static_cast<size_t>(sizes.bytes()), how.early};
}

// The first of `num_tiles` tiles that a block of the grid has; that of the block after it is where its tiles end. The
// last blocks have one more than the others, so that the last one always has tiles (streamed_choice.cuh relies on it).
__device__ inline int first_tile_of(uint32_t block, int num_tiles) {
    const uint32_t each = static_cast<uint32_t>(num_tiles) / gridDim.x;
    const uint32_t without_more = gridDim.x * (each + 1) - static_cast<uint32_t>(num_tiles);
    return static_cast<int>(block * each + (block > without_more ? block - without_more : 0));
}

// Where the parts of a block's shared memory are, and the tiles [first, end) that the block computes: none in some
// blocks, where there are fewer tiles than blocks.
struct BlockOfTiles {
    std::byte* chunks;
    std::byte* x;
    float* partials;
    uint64_t* filled;
    int stages;
    int first;
    int end;

    __device__ BlockOfTiles(const SharedSizes& sizes, int num_tiles)
        : chunks(dynamic_shared_1024()),
          x(chunks + sizes.chunks()),
          partials(reinterpret_cast<float*>(x + sizes.x)),
          filled(reinterpret_cast<uint64_t*>(x + sizes.x + sizes.partials)),
          stages(sizes.stages),
          first(first_tile_of(blockIdx.x, num_tiles)),
          end(first_tile_of(blockIdx.x + 1, num_tiles)) {}

    [[nodiscard]] __device__ bool empty() const { return first == end; }

    // The calling warp's ring, which it starts to fill.
    template <typename T, typename Source>
    [[nodiscard]] __device__ ChunkRing<T, Source> ring(const Source& source, bool pauses = false) const {
        const int mine = static_cast<int>(threadIdx.x) / kWarp * stages;
        return {chunks + mine * kChunkBytes, filled + mine, stages, source, first, end, pauses};
    }
};

// ---- The product --------------------------------------------------------------------------------------------

// Writes the warp's sums of a tile to partials [warps, x_rows, kTile].
__device__ inline void write_partials(const ChunkSums& sums, int x_rows, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int row = lane % 4;
    float* const to = partials + (warp * x_rows + row) * kTile + lane / 4;
    if (row < x_rows) *to = sums.sum();
}

// Which of the outputs of a group of kTiles tiles of kRows weight rows, [x_rows, kTiles, kRows], the calling thread
// adds up and stores. All lanes of a warp have one or none, since a row of x has kTiles * kRows.
template <int kRows, int kTiles>
struct OutputOfThread {
    static constexpr int kTilesOfGroup = kTiles;
    static constexpr int kRowsOfTile = kRows;

    int r;     // weight row of the tile
    int tile;  // of the group
    int row;   // of x

    __device__ OutputOfThread() {
        static_assert(kTiles * kRows % kWarp == 0 && kStreamedThreads >= kTiles * kRows * kMostXRows);
        const auto thread = static_cast<uint32_t>(threadIdx.x);
        r = static_cast<int>(thread % kRows);
        tile = static_cast<int>(thread / kRows % kTiles);
        row = static_cast<int>(thread / (kRows * kTiles));
    }
    // Reads the number that the thread's output is to be added to: read_base(row, tile, r). `first`: the group's first
    // tile; 0 where the output's tile is not before `end`.
    template <typename ReadBase>
    [[nodiscard]] __device__ float base(int x_rows, int first, int end, const ReadBase& read_base) const {
        return row < x_rows && first + tile < end ? read_base(row, first + tile, r) : 0.0F;
    }
    // Adds the warps' partials [kTiles, warps, x_rows, kRows] to `base` and stores the output where its tile is before
    // `end`: store(row, tile, r, sum, other) takes the sum of weight row `r` of the tile, and that of the row half a
    // tile away.
    template <typename Store>
    __device__ void store(const float* partials, int x_rows, int first, int end, float base, const Store& store) const {
        if (row >= x_rows) return;
        float sum = 0;
        if (first + tile < end) {
#pragma unroll
            for (int w = 0; w < kStreamedWarps; ++w) {
                sum += partials[((tile * kStreamedWarps + w) * x_rows + row) * kRows + r];
            }
        }
        sum += base;
        const float other = __shfl_xor_sync(kAllLanes, sum, kRows / 2);
        if (first + tile < end) store(row, first + tile, r, sum, other);
    }
};
using StreamedOutput = OutputOfThread<kTile, kGroup>;

// Outputs that are added to nothing.
struct NoBase {
    __device__ float operator()(int, int, int) const { return 0; }
};

// Computes the block's tiles for `x_rows` rows of x. `block` says which these are (first, end) and where the warps'
// sums of two groups of tiles have room (partials). multiply(ring, sums) adds the products of the warp's next piece of
// weights and goes on to the one after it; write_partials(sums, ...) writes the warp's Sums of a tile. Output is an
// OutputOfThread, which says what `read_base` and `store` are. `first_base`: the thread's base of the block's first
// group, which the caller should read before it reads the activations, so that the block does not wait for it.
template <typename Sums, typename Output, typename Block, typename Ring, typename Multiply, typename ReadBase,
          typename Store>
__device__ void multiply_tiles(const Block& block, Ring& ring, int x_rows, float first_base, const Multiply& multiply,
                               const ReadBase& read_base, const Store& store) {
    constexpr int kTiles = Output::kTilesOfGroup;
    const Output output;
    const int tile_floats = kStreamedWarps * x_rows * Output::kRowsOfTile;
    int buffer = 0;  // a warp may write the next group's partials while others still read this group's
#pragma unroll 1
    for (int group = block.first; group < block.end; group += kTiles) {
        float* const partials = block.partials + buffer * kTiles * tile_floats;
        const float added = group == block.first ? first_base : output.base(x_rows, group, block.end, read_base);
#pragma unroll 1
        for (int tile = group; tile < min(group + kTiles, block.end); ++tile) {
            Sums sums;
#pragma unroll 1
            while (ring.tile() == tile) multiply(ring, sums);
            write_partials(sums, x_rows, partials + (tile - group) * tile_floats);
        }
        __syncthreads();
        output.store(partials, x_rows, group, block.end, added, store);
        buffer ^= 1;
    }
}

}  // namespace nanolith::cuda
