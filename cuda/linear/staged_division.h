// Which part of a product of up to 96 rows each thread block of the kernel in staged.cu computes, and how it divides
// its shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "linear/staged.h"

namespace nanolith::cuda {

constexpr int kStagedTile = 16;                  // weight rows of a tile: those of a warp in a product of wgmma
constexpr int kMostStagedTiles = 16;             // of a strip
constexpr int kStagedWarps = 8;                  // that multiply, two warpgroups
constexpr int kStageLine = 64;                   // columns of a line
constexpr int kStageLineBytes = 2 * kStageLine;  // of a row in a line
constexpr int kMostStageLines = 4;               // of a stage
constexpr int kFewestStages = 3;
constexpr int kMostStages = 12;

// A thread block's shared memory, in bytes: stages, then what products read behind them where a strip has no whole
// blocks of 64 weight rows, then barriers. The partial sums of a strip are written over the stages.
constexpr int kStagedAlignment = 1024;  // of the stages, for the copy engine's swizzle
constexpr int kBehindStages = 48 * kStageLineBytes;
constexpr int kStageBarriers = kMostStages * 2 * 8;
constexpr int kBesideStages = kStagedAlignment + kBehindStages + kStageBarriers;
// For stages, where a thread block has a multiprocessor to itself, of whose 228 KiB the system takes 1 KiB a block; and
// where it shares it with one of another launch.
constexpr int kStagedShared = 227 * 1024 - kBesideStages;
constexpr int kHalfStagedShared = 111 * 1024 - kBesideStages;
// With so much in all a thread block takes more than half, and one with less than half fits beside it.
constexpr int kAloneShared = 115 * 1024;

struct StagedDivision {
    int rows = 0;         // of x
    int tiles = 0;        // of a strip
    int first_strip = 0;  // strips [first_strip, end_strip)
    int end_strip = 0;
    int splits = 1;      // thread blocks that share a strip's columns: the size of a cluster
    int clusters = 0;    // that have strips
    int launched = 0;    // clusters in all
    int steps = 0;       // stages that all columns take,
    int steps_each = 0;  // of which each thread block of a cluster has so many, the last ones perhaps fewer or none
    int lines = 0;       // of a stage
    int stages = 0;      // in shared memory
    int stage_bytes = 0;

    // Whether a cluster, then of one thread block, may have several strips. Warps write their outputs themselves then,
    // so that the stages of the next strip fill meanwhile.
    [[nodiscard]] __host__ __device__ bool several_strips() const { return end_strip - first_strip > clusters; }
    [[nodiscard]] size_t shared_bytes(bool alone) const {
        const int bytes = stages * stage_bytes + kBesideStages;
        return static_cast<size_t>(alone ? std::max(bytes, kAloneShared) : bytes);
    }
};

// Divides the product of `rows` rows of `size` elements with `weight_rows` weight rows, by a kernel for `kernel_rows`
// rows, so that it takes the least time.
inline StagedDivision divide_staged(int rows, int kernel_rows, int size, int weight_rows,
                                    const ClustersAtOnce& clusters) {
    // As measured on an H200. Of one of its multiprocessors, bytes a microsecond: of weights, which come from memory,
    // of weights and x together, which come from L2, and of partial sums that a cluster adds up.
    constexpr double kFromMemory = 40e3;
    constexpr double kFromL2 = 64e3;
    constexpr double kAddedUp = 8e3;
    constexpr double kOfCluster = 1.0;   // microseconds of a cluster's two barriers
    constexpr double kOfColumn = 0.001;  // microseconds until a column's products have ended
    const auto divide_up = [](int n, int by) { return (n + by - 1) / by; };
    const int num_tiles = divide_up(weight_rows, kStagedTile);
    const int num_lines = size / kStageLine;
    // With more weight rows a strip would leave no room for kFewestStages stages of two lines each.
    const int most_rows = kStagedShared / (kFewestStages * 2 * kStageLineBytes) - kernel_rows;
    const int most_tiles = std::min(kMostStagedTiles, most_rows / kStagedTile);
    StagedDivision best;
    best.rows = rows;
    double least = std::numeric_limits<double>::infinity();
    for (int splits = 1; splits <= kStagedSplits; splits *= 2) {
        const int at_once = clusters.most[static_cast<size_t>(splits)];
        if (at_once == 0 || (splits > 1 && splits * kMostStageLines > num_lines)) continue;
        const int waves = divide_up(num_tiles, most_tiles * at_once);
        if (splits > 1 && waves > 1) continue;
        const int tiles = divide_up(num_tiles, waves * at_once);
        const double columns = static_cast<double>(waves) * size / splits;
        const double weights = 2 * columns * tiles * kStagedTile;
        const double sums = 4.0 * rows * tiles * kStagedTile;
        const double loads = std::max(weights / kFromMemory, (weights + 2 * columns * rows) / kFromL2);
        const double time = loads + kOfColumn * columns + (splits > 1 ? kOfCluster + sums / kAddedUp : 0.0);
        if (time >= least) continue;
        least = time;
        best.splits = splits;
        best.tiles = tiles;
        best.end_strip = divide_up(num_tiles, tiles);
        best.clusters = std::min(best.end_strip, at_once);
        best.launched = best.clusters;
    }
    // If all weights of a block fit in half of a multiprocessor's shared memory, the block asks for half of it only.
    // A block of the next launch can then run on the same multiprocessor at the same time, and fetches its weights
    // while this one multiplies. That is fast only if the two blocks on a multiprocessor are of different launches. So
    // a launch has as many blocks as there is room for with one on each multiprocessor, even if there are fewer strips:
    // the clusters without a strip do nothing.
    const int64_t weights_of_block = int64_t{2} * best.tiles * kStagedTile * size / best.splits;
    const bool half = kernel_rows <= 64 && !best.several_strips() && weights_of_block <= kHalfStagedShared;
    if (half) best.launched = clusters.most[static_cast<size_t>(best.splits)];
    const int limit = half ? kHalfStagedShared : kStagedShared;
    const int line_bytes = (best.tiles * kStagedTile + kernel_rows) * kStageLineBytes;
    best.lines = kMostStageLines;
    while (best.lines > 1 && limit / (line_bytes * best.lines) < kFewestStages) best.lines /= 2;
    best.stage_bytes = line_bytes * best.lines;
    best.stages = std::min(limit / best.stage_bytes, kMostStages);
    best.steps = divide_up(num_lines, best.lines);
    best.steps_each = divide_up(best.steps, best.splits);
    return best;
}

}  // namespace nanolith::cuda
