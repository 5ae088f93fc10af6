#include "attention/plan/block_shares.h"

#include <algorithm>
#include <cmath>

namespace nanolith::cuda {

namespace {

// Microseconds that a block of the narrow kernel needs for an item besides its KV tiles, on Hopper, in steps of few
// items.
constexpr double kShareItemCost = 2.0;

// A block needs kShareItemCost for each item, in addition to the time for the item's KV tiles. Returns that cost
// as the number of KV tiles that the block could compute in the same time, or 0 if shares should count KV tiles alone.
//
// Why items count: take eight rows that share a long prefix and have a few tokens of their own, which are eight short
// items. By KV tiles alone they are less than one block's share, so one block gets all eight and ends long after the
// others. That step took 20% longer on an H200, and steps of two and three rows 3 to 5%.
//
// Why they don't always: if there are many items of similar lengths, equal shares of KV tiles have about equally many
// items anyway, and counting these as well made a step of 48 rows 1% slower.
int32_t cost_of_item(const PlanShape& shape, const TileTotals& totals, int blocks) {
    const bool few = 2 * totals.narrow_tiles <= blocks;
    const bool of_similar_length = totals.longest_narrow * totals.narrow_tiles <= 2 * totals.narrow_kv_tiles;
    if (shape.kernel != NarrowKernel::hopper || (!few && of_similar_length)) return 0;
    const double rate = std::min(kBlockRate, kMemoryRate / (static_cast<double>(blocks) * shape.num_kv_heads));
    return static_cast<int32_t>(std::lround(kShareItemCost * rate / shape.tile_bytes));
}

// The predicted microseconds of the narrow query tiles on so many blocks for each KV head.
double narrow_time(const PlanShape& shape, const TileTotals& totals, int blocks) {
    const int64_t share = divide_up(totals.narrow_kv_tiles, blocks);
    const double all_blocks = static_cast<double>(blocks) * shape.num_kv_heads;
    const double rate = std::min(kBlockRate, kMemoryRate / all_blocks);
    const bool splits =
        share < totals.longest_narrow || (totals.narrow_tiles > blocks && share % totals.longest_narrow != 0);
    // What items cost is hidden where blocks of one multiprocessor run side by side.
    const double side_by_side = std::max(1.0, all_blocks / shape.multiprocessors);
    const int64_t items = divide_up(totals.narrow_tiles, blocks);
    return static_cast<double>(share) * shape.tile_bytes / rate + (splits ? kMergeCost : 0.0) +
           kItemCost * static_cast<double>(items - 1) / side_by_side;
}

// The number of blocks that is predicted to be the fastest: more blocks read faster, but where their number does not
// suit the number of query tiles these must be split, and partial results merged.
int choose_blocks(const PlanShape& shape, const TileTotals& totals) {
    const int most = narrow_blocks(shape);
    const int one_each = std::max(1, shape.multiprocessors / shape.num_kv_heads);
    const int64_t tiles = totals.narrow_tiles;
    int best = most;
    double best_time = narrow_time(shape, totals, most);
    const auto consider = [&](int64_t blocks) {
        if (blocks < 1 || blocks > most) return;
        const double time = narrow_time(shape, totals, static_cast<int>(blocks));
        if (time >= best_time) return;
        best_time = time;
        best = static_cast<int>(blocks);
    };
    for (const int64_t limit : {int64_t{one_each}, int64_t{most}}) {
        consider(limit);
        consider(limit / tiles * tiles);                      // the same number of blocks for each query tile
        consider(divide_up(tiles, divide_up(tiles, limit)));  // the same number of query tiles for each block
    }
    for (int64_t splits = 1; splits * tiles <= one_each; splits *= 2) consider(splits * tiles);
    return best;
}

}  // namespace

BlockShares::BlockShares(const PlanShape& shape, const TileTotals& totals, const Overlap& overlap)
    : worth_a_split_(static_cast<int32_t>((kMergeCost + kItemCost) * kBlockRate / shape.tile_bytes)) {
    if (overlap.early_blocks == 0) {
        blocks_ = choose_blocks(shape, totals);
        item_kv_tiles_ = cost_of_item(shape, totals, blocks_);
        return;
    }
    blocks_ = overlap.late_share > 0 ? narrow_blocks(shape) : overlap.early_blocks;
    early_blocks_ = overlap.early_blocks;
    // An item that waits for wide items which take longer than predicted loses more than one that needs no waiting.
    before_wide_end_ = 1.25 * overlap.before_wide_end;
    early_share_ = overlap.early_share;
    late_share_ = overlap.late_share;
}

int32_t BlockShares::share_of(int block, int64_t kv_tiles) const {
    const int early = std::max(0, early_blocks_ - block);
    const int late = blocks_ - block - early;
    const double own = block < early_blocks_ ? early_share_ : late_share_;
    const double all = early * early_share_ + late * late_share_;
    return std::max(1, static_cast<int32_t>(std::ceil(static_cast<double>(kv_tiles) * own / all)));
}

int32_t BlockShares::slack_of(int32_t share) const {
    // Early and late shares differ much, and a part of a small one says little.
    return early_blocks_ > 0 ? worth_a_split_ : std::min(share / 16, worth_a_split_);
}

}  // namespace nanolith::cuda
