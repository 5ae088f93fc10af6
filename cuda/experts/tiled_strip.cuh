// What one thread block of grouped_compact.cu computes: the product of a strip of an expert's compact weight rows with
// 16 rows of activations. How the work is divided is described there.
#pragma once

#include "compact/cluster_sums.cuh"
#include "compact/tiled_ring.cuh"
#include "device/dynamic_shared.cuh"
#include "experts/tiled_division.h"
#include "experts/tiled_product.cuh"
#include "experts/tiled_x.cuh"

namespace nanolith::cuda {

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
        constexpr int kAhead = kXStages - 1;  // stages of x under way
        for (int i = 0; i < kAhead; ++i) {
            if (first_ + i < end_) x.fetch(first_ + i, shared_ + i * X::kStageBytes);
            commit_copies();
        }
        Fragment<kRows> sums = {};
        const uint32_t power = in_register(kPower<T, Traits::kCodes>);
        int at = 0;  // the stage that has the block's columns of x
        for (int block = first_; block < end_; ++block) {
            std::byte* const stage = shared_ + at * X::kStageBytes;
            wait_for_copies<kAhead - 1>();
            fence_async_proxy();
            __syncthreads();  // x is there for all warps, and all have done with the columns before
            if (block + kAhead < end_) x.fetch(block + kAhead, shared_ + (at == 0 ? kAhead : at - 1) * X::kStageBytes);
            commit_copies();
            if (++at == kXStages) at = 0;
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
        using Sums = ClusterSums<kTiledWarps, kTiledThreads>;
        Sums::leave(sums, memory);
        Sums::template put<T>(memory, {first_tile_, division_.tiles, division_.splits}, rows, matrix_, output);
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
