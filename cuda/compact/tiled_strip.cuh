// The strip of weight rows of a thread block, times up to 64 rows of activations: what tiled_compact.cu and
// experts/grouped_compact.cu have in common. The tiling is described in the former.
#pragma once

#include "compact/output.cuh"
#include "compact/tiled_division.h"
#include "compact/tiled_product.cuh"
#include "compact/tiled_ring.cuh"
#include "compact/tiled_x.cuh"
#include "device/cluster.cuh"
#include "device/dynamic_shared.cuh"

namespace nanolith::cuda {

// Writes the warp's partial sums to its tile's place in [rows of x][kSumsRow] float32.
template <int kRows>
__device__ void leave_sums(const Fragment<kRows>& sums, float* memory) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int octet = 0; octet < kRows / 8; ++octet) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = 8 * octet + Fragment<kRows>::first_column(lane) + i % 2;
            memory[row * kSumsRow + warp * kCompactTile + lane / 4 + i / 2 * 8] = sums.octets[octet][i];
        }
    }
}

// Adds up four adjacent partial sums over the cluster's `splits` thread blocks. `at`: where this one has its own; the
// others have theirs at the same place of their shared memory. All are loaded before the first is added, so that the
// loads overlap.
__device__ inline void add_up(const float* at, int splits, float (&sums)[4]) {
    float4 parts[kTiledSplits];
#pragma unroll
    for (int i = 0; i < kTiledSplits; ++i) {
        if (i < splits) parts[i] = *reinterpret_cast<const float4*>(in_block(at, i));
    }
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
#pragma unroll
    for (int i = 0; i < kTiledSplits; ++i) {
        if (i >= splits) break;
        sums[0] += parts[i].x;
        sums[1] += parts[i].y;
        sums[2] += parts[i].z;
        sums[3] += parts[i].w;
    }
}

// Adds up the partial sums of this thread block's share of the strip's tiles and writes those outputs. `memory`: its
// own partial sums; those of the cluster's other thread blocks must be complete too. `first`: the strip's first tile.
template <typename T>
__device__ void put_sums(const float* memory, int first, int rows, const CompactMatrix& matrix,
                         const TiledDivision& division, const CompactOutput& output) {
    const int rank = cluster_rank();
    const int begin = division.tiles * rank / division.splits;
    const int end = min(division.tiles * (rank + 1) / division.splits, matrix.num_tiles() - first);
    const int quads = matrix.rows_of_tile() / 4;
    const int columns = (end - begin) * quads;
    for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += kTiledThreads) {
        const int row = i / columns;
        const int tile = begin + i % columns / quads;
        const int r = i % columns % quads * 4;
        const float* const at = memory + row * kSumsRow + tile * kCompactTile + r;
        float sums[4];
        float others[4] = {};
        add_up(at, division.splits, sums);
        if (matrix.gated) add_up(at + kCompactTile / 2, division.splits, others);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            put_output<T>(output, matrix, row, first + tile, r + j, sums[j], others[j]);
        }
    }
}

// X is a TiledX of kRows rows. All threads of all thread blocks of a cluster make every call.
template <typename T, typename Traits, typename X, int kRows>
class TiledStrip {
  public:
    // `strip`: its number in the matrix. All that is read from device memory is what start() and multiply() read.
    __device__ TiledStrip(const CompactMatrix& matrix, const TiledDivision& division, int strip)
        : matrix_(matrix),
          division_(division),
          shared_(dynamic_shared_1024()),
          first_tile_(strip * division.tiles),
          tiles_(min(division.tiles, matrix.num_tiles() - first_tile_)),
          first_(compact_blocks_of(matrix.size) * cluster_rank() / division.splits),
          end_(compact_blocks_of(matrix.size) * (cluster_rank() + 1) / division.splits),
          ring_(matrix, shared_ + division.rings + slot() * division.stages * kBlock,
                reinterpret_cast<uint64_t*>(shared_ + division.barriers) + slot() * division.stages,
                warp() < division.tiles ? division.stages : 0) {}

    // Starts to fetch the strip's first weights out of the tiles of a matrix.
    __device__ void start(const std::byte* tiles) {
        const int tile = first_tile_ + warp();
        ring_.start(tiles + tile * Traits::layout().tile_bytes(matrix_.size), first_, warp() < tiles_ ? end_ : first_);
    }

    // Multiplies what start() has begun to fetch with x, of which the first `rows` rows count, and writes the outputs.
    __device__ void multiply(const X& x, int rows, const CompactOutput& output) {
        std::byte* const means = shared_ + division_.means;
        const int ahead = division_.x_stages - 1;
        for (int i = 0; i < ahead; ++i) {
            if (first_ + i < end_) x.fetch(first_ + i, shared_ + i * X::kStageBytes);
            commit_copies();
        }
        Fragment<kRows> sums = {};
        const uint32_t power = in_register(kPower<T, Traits::kCodes>);
        int at = 0;  // the stage that has the block's columns of x
        for (int block = first_; block < end_; ++block) {
            std::byte* const stage = shared_ + at * X::kStageBytes;
            if (ahead == 1) {
                wait_for_copies<0>();
            } else {
                wait_for_copies<kXStages - 2>();
            }
            fence_async_proxy();
            __syncthreads();  // x is there for all warps, and all have done with the columns before
            if (block + ahead < end_) x.fetch(block + ahead, shared_ + (at == 0 ? ahead : at - 1) * X::kStageBytes);
            commit_copies();
            if (++at == division_.x_stages) at = 0;
            const int lines = min(kCompactColumns, matrix_.size - block * kCompactColumns) / kCompactUnit;
            if constexpr (Traits::kMeans) {
                X::write_means(stage, lines, means);
                __syncthreads();
            }
            if (warp() / kWarpsOfGroup * kWarpsOfGroup >= tiles_) continue;
            if (warp() < tiles_) ring_.wait();
            const TiledProduct<T, Traits, X, kRows> product({ring_.block(), lines, power, matrix_.layout.zero});
            product.add(stage, means + static_cast<int>(threadIdx.x) % kWarp / 4 * X::kMeansRowBytes, sums);
            if (warp() < tiles_) ring_.advance();
        }

        __syncthreads();  // the partial sums overwrite x and rings, which all have read now
        auto* const memory = reinterpret_cast<float*>(shared_);
        leave_sums(sums, memory);
        __syncwarp();
        cluster_arrive();
        cluster_wait();
        put_sums<T>(memory, first_tile_, rows, matrix_, division_, output);
        cluster_arrive_after_reading();  // a thread block must not end while others read its sums
        cluster_wait();
    }

  private:
    static constexpr int kBlock = Traits::layout().block_bytes(kCompactColumns);

    __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
    // A warp without a tile takes part in its warpgroup's products with the last ring's codes; its sums go nowhere.
    [[nodiscard]] __device__ int slot() const { return min(warp(), division_.tiles - 1); }

    const CompactMatrix& matrix_;
    const TiledDivision& division_;
    std::byte* const shared_;
    const int first_tile_;
    const int tiles_;  // of the strip: fewer in the matrix's last one
    const int first_;  // the thread block's share of the columns: blocks [first_, end_)
    const int end_;
    TiledRing<Traits> ring_;
};

}  // namespace nanolith::cuda
