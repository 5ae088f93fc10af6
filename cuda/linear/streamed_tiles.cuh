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
constexpr int kGroup = 4;  // tiles between two barriers of the block

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
          first(first_of(blockIdx.x, num_tiles)),
          end(first_of(blockIdx.x + 1, num_tiles)) {}

    [[nodiscard]] __device__ bool empty() const { return first == end; }

    // The calling warp's ring, which it starts to fill.
    template <typename T, typename Source>
    [[nodiscard]] __device__ ChunkRing<T, Source> ring(const Source& source) const {
        const int mine = static_cast<int>(threadIdx.x) / kWarp * stages;
        return {chunks + mine * kChunkBytes, filled + mine, stages, source, first, end};
    }

  private:
    __device__ static int first_of(unsigned block, int num_tiles) {
        return static_cast<int>(static_cast<int64_t>(num_tiles) * block / gridDim.x);
    }
};

// ---- The product --------------------------------------------------------------------------------------------

// Writes the warp's sums of a tile to partials [warps, x_rows, kTile].
__device__ inline void write_partials(const float (&sums)[2][4], int x_rows, float* partials) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int row = lane / 4;
    if (row >= x_rows) return;
    auto* const to = reinterpret_cast<float2*>(partials + (warp * x_rows + row) * kTile + lane % 4 * 2);
    *to = make_float2(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]);
}

// Adds the warps' partials [kGroup, warps, x_rows, kTile] of the tiles from `first` on, and stores those before `end`.
// All lanes of a warp take part or none, since a row has kGroup * kTile sums.
template <typename Store>
__device__ void store_group(const float* partials, int x_rows, int first, int end, const Store& store) {
    static_assert(kGroup * kTile % kWarp == 0 && kStreamedThreads >= kGroup * kTile * kStreamedRows);
    const int thread = static_cast<int>(threadIdx.x);
    const int r = thread % kTile;
    const int tile = thread / kTile % kGroup;
    const int row = thread / (kTile * kGroup);
    if (row >= x_rows) return;
    float sum = 0;
    if (first + tile < end) {
#pragma unroll
        for (int w = 0; w < kStreamedWarps; ++w) {
            sum += partials[((tile * kStreamedWarps + w) * x_rows + row) * kTile + r];
        }
    }
    const float other = __shfl_xor_sync(kAllLanes, sum, kTile / 2);
    if (first + tile < end) store(row, first + tile, r, sum, other);
}

// Computes the block's tiles for `x_rows` rows. multiply(ring, sums) adds the products of the warp's next chunk, and
// store(row, tile, r, sum, other) takes the sum of weight row `r` of the tile, and that of row r ^ 4.
template <typename Ring, typename Multiply, typename Store>
__device__ void multiply_tiles(const BlockOfTiles& block, Ring& ring, int x_rows, const Multiply& multiply,
                               const Store& store) {
    const int tile_floats = kStreamedWarps * x_rows * kTile;
    int buffer = 0;  // a warp may write the next group's partials while others still read this group's
    for (int group = block.first; group < block.end; group += kGroup) {
        float* const mine = block.partials + buffer * kGroup * tile_floats;
        for (int tile = group; tile < min(group + kGroup, block.end); ++tile) {
            float sums[2][4] = {};
            while (ring.tile() == tile) multiply(ring, sums);
            write_partials(sums, x_rows, mine + (tile - group) * tile_floats);
        }
        __syncthreads();
        store_group(mine, x_rows, group, block.end, store);
        buffer ^= 1;
    }
}

}  // namespace nanolith::cuda
