#include "attention/plan/overlap.h"

#include <algorithm>
#include <span>

namespace nanolith::cuda {

namespace {

// Microseconds that an item or block takes beside its KV tiles: a wide item from its launch to its first product and
// from its last one to its end; a narrow block that begins beside wide items until its first KV tile; the first item of
// a narrow block that begins when wide items end.
constexpr double kWideStart = 6.0;
constexpr double kEarlyStart = 5.0;
constexpr double kLateStart = 7.0;
// Floating-point operations of a wide item in each microsecond.
constexpr double kWideFlops = 5.1e6;

// What the narrow blocks of a KV head have to do.
struct NarrowWork {
    double kv_tiles;
    double item_cost;   // microseconds for each KV tile: its part of what its item costs beside the KV tiles
    double tile_bytes;  // of a KV tile
    int num_kv_heads;

    // KV tiles that each of so many blocks does in a microsecond where memory gives all of them `memory_rate`.
    [[nodiscard]] double rate(int blocks, double memory_rate) const {
        const double memory_time = tile_bytes * blocks * num_kv_heads / memory_rate;
        return 1.0 / std::max(memory_time, tile_bytes / kBlockRate + item_cost);
    }
};

// What the wide items of a KV head do, predicted.
struct WideWork {
    int items;           // no more than there are multiprocessors
    double time;         // microseconds
    double memory_rate;  // bytes a microsecond that they read
};

struct TimedOverlap {
    Overlap overlap;
    double time;  // microseconds
};

// Divides the narrow work between early blocks, on the multiprocessors that the wide items leave free, and late blocks.
// `multiprocessors`: of all.
TimedOverlap divide(const NarrowWork& narrow, const WideWork& wide, int multiprocessors) {
    const int early = multiprocessors - wide.items;
    Overlap overlap;
    overlap.early_blocks = early;
    const double rate_after = early > 0 ? narrow.rate(early, kMemoryRate) : 0;
    const double memory_beside = std::max(0.1 * kMemoryRate, kMemoryRate - wide.memory_rate);
    const double rate_beside = early > 0 ? narrow.rate(early, memory_beside) : 0;
    overlap.before_wide_end = rate_beside * std::max(0.0, wide.time - kEarlyStart);
    const double left = std::max(0.0, narrow.kv_tiles - early * overlap.before_wide_end);
    // With late blocks: while these start, the early ones go on alone; the rest is divided evenly among all.
    const double each = std::max(0.0, left - early * rate_after * kLateStart) / multiprocessors;
    const double time_with_late = kLateStart + each / narrow.rate(multiprocessors, kMemoryRate);
    if (early > 0 && left / (early * rate_after) <= time_with_late) {
        overlap.early_share = narrow.kv_tiles / early;
        return {overlap, wide.time + left / (early * rate_after)};
    }
    overlap.early_share = overlap.before_wide_end + rate_after * kLateStart + each;
    overlap.late_share = each;
    return {overlap, wide.time + time_with_late};
}

// How wide query tiles are split for so many multiprocessors.
struct WideSplits {
    int64_t count;
    int32_t longest;  // KV tiles
};

WideSplits split_wide(const TileTotals& totals, int multiprocessors) {
    WideSplits splits{0, 1};
    for (const int32_t kv_tiles : totals.wide_kv_tiles) {
        const int32_t size = wide_split_size(kv_tiles, totals.all_wide_kv_tiles, multiprocessors);
        splits.count += divide_up(kv_tiles, size);
        splits.longest = std::max(splits.longest, size);
    }
    return splits;
}

}  // namespace

int32_t wide_split_size(int32_t kv_tiles, int64_t all_kv_tiles, int multiprocessors) {
    // A split has at least this many KV tiles, and an even number, since the wide kernel reads two at once.
    constexpr int64_t kLeastSplit = 8;
    const int64_t share = all_kv_tiles == 0 ? 1 : kv_tiles * int64_t{multiprocessors} / all_kv_tiles;
    const int64_t splits = std::max<int64_t>(1, std::min(share, kv_tiles / kLeastSplit));
    const int64_t pairs = divide_up(divide_up(kv_tiles, splits), 2);
    return static_cast<int32_t>(std::max<int64_t>(1, pairs) * 2);
}

Overlap no_overlap(const PlanShape& shape) {
    Overlap overlap;
    overlap.wide_multiprocessors = narrow_blocks(shape);  // where there is a wide kernel, one on each
    return overlap;
}

Overlap choose_overlap(const PlanShape& shape, const TileTotals& totals) {
    Overlap best = no_overlap(shape);
    const int multiprocessors = best.wide_multiprocessors;
    const auto wide_tiles = static_cast<int64_t>(totals.wide_kv_tiles.size());
    // Wide query tiles that fill the multiprocessors without being split leave none free.
    if (totals.narrow_kv_tiles == 0 || wide_tiles == 0 || wide_tiles >= multiprocessors) return best;
    const auto tile_bytes = static_cast<double>(shape.tile_bytes);
    const auto kv_tiles = static_cast<double>(totals.narrow_kv_tiles);
    const NarrowWork narrow{kv_tiles, kItemCost * static_cast<double>(totals.narrow_tiles) / kv_tiles, tile_bytes,
                            shape.num_kv_heads};
    const double wide_tile_time = tile_bytes * shape.wide_vectors / kWideFlops;
    const double wide_bytes = static_cast<double>(totals.wide_kv_tiles_read) * shape.tile_bytes * shape.num_kv_heads;
    double best_time = 1e30;
    constexpr int kChoices = 16;
    for (int choice = kChoices; choice > 0; --choice) {
        const int for_wide = std::max(1, multiprocessors * choice / kChoices);
        const WideSplits splits = split_wide(totals, for_wide);
        if (splits.count > multiprocessors) continue;
        const double busy = std::max(splits.longest * wide_tile_time, wide_bytes / kMemoryRate);
        const WideWork wide{static_cast<int>(splits.count), kWideStart + busy, wide_bytes / busy};
        const TimedOverlap timed = divide(narrow, wide, multiprocessors);
        if (timed.time >= best_time) continue;
        best_time = timed.time;
        best = timed.overlap;
        best.wide_multiprocessors = for_wide;
    }
    return best;
}

}  // namespace nanolith::cuda
