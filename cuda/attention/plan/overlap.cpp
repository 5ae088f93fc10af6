#include "attention/plan/overlap.h"

#include <algorithm>

#include "attention/plan/plan.h"

namespace nanolith::cuda {

namespace {

// Microseconds until the first products of a wide item with its end, the first tiles of a narrow block that begins
// beside wide items, and the first item's end beyond its tiles of one that takes what those leave.
constexpr double kWideStart = 6.0;
constexpr double kEarlyStart = 5.0;
constexpr double kLateStart = 7.0;
// Of a wide item, in each microsecond.
constexpr double kWideFlops = 5.1e6;

// What the narrow blocks of a KV head have to do.
struct Narrow {
    double tiles;
    double item_cost;  // of a tile: its part of what its item costs beside the tiles, in microseconds
    double tile_bytes;
    int num_kv_heads;

    // Tiles that each of so many blocks does in a microsecond, where memory leaves that for them.
    [[nodiscard]] double rate(int blocks, double memory_rate) const {
        const double memory = tile_bytes * blocks * num_kv_heads / memory_rate;
        return 1.0 / std::max(memory, tile_bytes / kBlockRate + item_cost);
    }
};

struct Timed {
    Overlap overlap;
    double time;
};

// Wide items that take `used` of `all` multiprocessors, this long, and so much of what memory brings in a microsecond,
// and narrow tiles on what they leave.
Timed divide(const Narrow& narrow, int used, int all, double wide_time, double wide_rate) {
    const int early = all - used;
    Overlap overlap;
    overlap.early = early;
    const double rate = early > 0 ? narrow.rate(early, kMemoryRate) : 0;
    const double beside = early > 0 ? narrow.rate(early, std::max(0.1 * kMemoryRate, kMemoryRate - wide_rate)) : 0;
    overlap.ahead = beside * std::max(0.0, wide_time - kEarlyStart);
    const double left = std::max(0.0, narrow.tiles - early * overlap.ahead);
    const double together = std::max(0.0, left - early * rate * kLateStart) / all;
    const double late_time = kLateStart + together / narrow.rate(all, kMemoryRate);
    if (early > 0 && left / (early * rate) <= late_time) {
        overlap.share = narrow.tiles / early;
        return {overlap, wide_time + left / (early * rate)};
    }
    overlap.share = overlap.ahead + rate * kLateStart + together;
    overlap.late_share = together;
    return {overlap, wide_time + late_time};
}

}  // namespace

int32_t wide_step(int32_t tiles, int64_t all_tiles, int places) {
    // Shares of at least this, in pairs of tiles.
    constexpr int64_t kLeastShare = 8;
    const int64_t wanted = std::min(all_tiles == 0 ? 1 : tiles * int64_t{places} / all_tiles, tiles / kLeastShare);
    const int64_t step = divide_up(tiles, std::max<int64_t>(1, wanted));
    return static_cast<int32_t>(std::max<int64_t>(1, divide_up(step, 2)) * 2);
}

Overlap choose_overlap(const PlanShape& shape, const OverlapWork& work) {
    const int all = narrow_blocks(shape);  // one on each multiprocessor
    Overlap best;
    best.places = all;
    // Lines that fill the multiprocessors without being cut take turns on all of them.
    const std::span<const int32_t> wide_tiles = work.wide_tiles;
    if (work.narrow_tiles == 0 || wide_tiles.empty() || static_cast<int64_t>(wide_tiles.size()) >= all) return best;
    int64_t all_tiles = 0;
    for (const int32_t tiles : wide_tiles) all_tiles += tiles;
    const auto tiles = static_cast<double>(work.narrow_tiles);
    const Narrow narrow{tiles, kItemCost * static_cast<double>(work.narrow_lines) / tiles,
                        static_cast<double>(shape.tile_bytes), shape.num_kv_heads};
    const double tile_time = static_cast<double>(shape.tile_bytes) * shape.wide_vectors / kWideFlops;
    const double read = static_cast<double>(work.read_tiles) * shape.tile_bytes * shape.num_kv_heads;  // bytes
    double best_time = 1e30;
    constexpr int kChoices = 16;
    for (int choice = kChoices; choice > 0; --choice) {
        const int places = std::max(1, all * choice / kChoices);
        int64_t pieces = 0;
        int32_t longest = 1;
        for (const int32_t line : wide_tiles) {
            const int32_t step = wide_step(line, all_tiles, places);
            pieces += divide_up(line, step);
            longest = std::max(longest, step);
        }
        if (pieces > all) continue;
        const double busy = std::max(longest * tile_time, read / kMemoryRate);
        const Timed timed = divide(narrow, static_cast<int>(pieces), all, kWideStart + busy, read / busy);
        if (timed.time >= best_time) continue;
        best_time = timed.time;
        best = timed.overlap;
        best.places = places;
    }
    return best;
}

}  // namespace nanolith::cuda
