// How a product of experts' compact weights with up to 32 rows (tiled_strip.cuh) is divided among thread blocks, and
// what a thread block's shared memory has where.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "compact/cluster_sums.cuh"
#include "compact/layout.h"
#include "device/reduce.cuh"

namespace nanolith::cuda {

constexpr int kTiledWarps = 16;  // of a thread block: each has a tile
constexpr int kTiledThreads = kTiledWarps * kWarp;
constexpr int kWarpsOfGroup = 4;                        // of a warpgroup
constexpr int kXStages = 3;                             // of x in shared memory
constexpr int kMostRing = 4;                            // stages of a warp's ring
constexpr int kXAlignment = 1024;                       // of x's stages, for wgmma's swizzle
constexpr int kTiledShared = 227 * 1024 - kXAlignment;  // bytes that are left once the beginning is aligned

struct TiledDivision {
    int tiles = kTiledWarps;  // of a strip
    int splits = 1;           // thread blocks that share a strip's columns: the size of a cluster
    int strips = 1;
    int stages = 0;  // blocks of weights that each warp's ring holds
    // Where a thread block's shared memory has the other parts, in bytes; x's stages are at its beginning. Partial sums
    // are written over x, means and rings once the product is complete.
    int means = 0;
    int rings = 0;
    int barriers = 0;
    int bytes = 0;  // of shared memory in all

    [[nodiscard]] __host__ __device__ int thread_blocks() const { return strips * splits; }
};

// Chooses tiles, splits and strips so that the thread block with most work has as little as possible, measured in bytes
// that it loads. `matrices`: how many matrices of this form and size are multiplied in one launch. `x_bytes`: of a
// stage of x.
inline void divide(const CompactMatrix& matrix, int matrices, int x_bytes, const ClustersAtOnce& clusters,
                   TiledDivision& division) {
    // The time in which a cluster adds up its partial sums, as the bytes of weights that a thread block could load in
    // it.
    constexpr int64_t kClusterCost = 40 * 1024;
    const auto divide_up = [](int n, int by) { return (n + by - 1) / by; };
    const int num_tiles = matrix.num_tiles();
    const int num_blocks = compact_blocks_of(matrix.size);
    int64_t least = INT64_MAX;
    for (int splits = 1; splits <= std::min(kCompactSplits, num_blocks); ++splits) {
        const int at_once = clusters.most[static_cast<size_t>(splits)];
        if (at_once == 0) continue;
        // The fewest waves of clusters, and with that many waves the fewest tiles in a strip.
        const int waves = divide_up(matrices * divide_up(num_tiles, kTiledWarps), at_once);
        const int strips = waves * at_once / matrices;  // of a matrix
        const int tiles = std::max(divide_up(num_tiles, strips), kWarpsOfGroup);
        // x comes from L2, about twice as fast as weights come from memory.
        const int64_t step = tiles * matrix.layout.block_bytes(kCompactColumns) + x_bytes / 2;
        const int64_t cost = waves * divide_up(num_blocks, splits) * step + (splits > 1 ? kClusterCost : 0);
        if (cost >= least) continue;
        least = cost;
        division.tiles = tiles;
        division.splits = splits;
        division.strips = divide_up(num_tiles, tiles);
    }
}

// X: a TiledX of kRows rows.
template <typename X, int kRows>
TiledDivision divide_for(const CompactMatrix& matrix, int matrices, const ClustersAtOnce& clusters) {
    TiledDivision division;
    divide(matrix, matrices, X::kStageBytes, clusters, division);
    const int stage = matrix.layout.block_bytes(kCompactColumns);
    division.means = kXStages * X::kStageBytes;
    division.rings = division.means + kRows * X::kMeansRowBytes;
    division.stages = std::min((kTiledShared - division.rings) / (division.tiles * (stage + 8)), kMostRing);
    const int sums = kRows * sums_row(kTiledWarps) * static_cast<int>(sizeof(float));
    division.barriers = std::max(division.rings + division.tiles * division.stages * stage, sums);
    division.bytes = division.barriers + division.tiles * division.stages * 8 + kXAlignment;
    return division;
}

}  // namespace nanolith::cuda
