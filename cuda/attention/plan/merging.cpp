#include "attention/plan/merging.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace nanolith::cuda {

namespace {

// Partial results of others that an item reads in one go.
constexpr int kFewPartials = 4;

}  // namespace

MergePlanner::MergePlanner(const PlanShape& shape, int64_t max_rows)
    : shape_(shape), groups_(head_groups(shape)), bounds_(partial_bounds(shape, max_rows)) {}

// Calls visit(number of the row group, its first vector in the tile) for each row group of a query tile.
template <typename Visit>
void MergePlanner::for_each_row_group(const QueryTile& tile, const AttentionPlan& plan, const Visit& visit) const {
    const int32_t heads = std::min(groups_.heads, shape_.heads_per_kv() - tile.item.first_vector);
    const size_t num_rows = divide_up(tile.item.num_vectors, heads);
    const size_t groups = groups_.count;
    const size_t group = tile.item.first_vector / groups_.heads;
    int32_t vector = 0;
    for (const QueryRow& query : std::span(plan.queries).subspan(tile.item.first_query, num_rows)) {
        visit(query.row * groups + group, vector);
        vector += heads;
    }
}

bool MergePlanner::assign_partials(std::span<const QueryTile> tiles, const Splitter& splitter, size_t num_rows,
                                   AttentionPlan& plan) {
    count_splits(tiles, splitter, num_rows, plan);
    const bool room = number_partials(tiles, splitter, plan);
    list_partials(tiles, splitter, plan);
    return room;
}

// Counts the splits of each row group: all of them in num_partials, and the narrow ones.
void MergePlanner::count_splits(std::span<const QueryTile> tiles, const Splitter& splitter, size_t num_rows,
                                AttentionPlan& plan) {
    const size_t row_groups = num_rows * groups_.count;
    plan.row_partials.assign(row_groups, RowPartials{0, 0});
    narrow_splits_.assign(row_groups, 0);
    last_block_.assign(row_groups, -1);
    for (size_t i = 0; i < tiles.size(); ++i) {
        const TileSplits& splits = splitter.of_tiles()[i];
        const int32_t count = splits.count;
        const int32_t narrow_count = tiles[i].wide ? 0 : count;
        const int32_t block = splitter.splits()[splits.last].block;  // -1: wide
        for_each_row_group(tiles[i], plan, [&](size_t row_group, int32_t) {
            plan.row_partials[row_group].num_partials += count;
            narrow_splits_[row_group] += narrow_count;
            last_block_[row_group] = std::max(last_block_[row_group], block);
        });
    }
}

// Whether the last split of a query tile merges the partial results of others: those of wide items, which have ended by
// then, and a few of narrow ones that may be published as late as its own, if its block has nothing else to do.
bool MergePlanner::can_merge(const QueryTile& tile, const TileSplits& tile_splits, std::span<const Split> splits,
                             const AttentionPlan& plan) const {
    if (tile.wide || tile_splits.early || shape_.kernel != NarrowKernel::hopper) return false;
    const size_t last = tile_splits.last;
    const int32_t block = splits[last].block;
    const bool ends_block = last + 1 == splits.size() || splits[last + 1].block != block;
    bool can = true;
    for_each_row_group(tile, plan, [&](size_t row_group, int32_t) {
        const bool alone = narrow_splits_[row_group] == 1;
        const bool few = plan.row_partials[row_group].num_partials <= 1 + kFewPartials;
        can = can && (alone || (ends_block && few && last_block_[row_group] == block));
    });
    return can;
}

// Numbers the partial results, query tile after query tile. False: there is no room for all.
bool MergePlanner::number_partials(std::span<const QueryTile> tiles, const Splitter& splitter,
                                   const AttentionPlan& plan) {
    of_tiles_.resize(tiles.size());
    merged_.assign(plan.row_partials.size(), 0);
    int64_t narrow_end = 0;
    int64_t wide_end = bounds_.narrow;
    for (size_t i = 0; i < tiles.size(); ++i) {
        const QueryTile& tile = tiles[i];
        const TileSplits& splits = splitter.of_tiles()[i];
        bool alone = true;
        for_each_row_group(tile, plan, [&](size_t row_group, int32_t) {
            alone = alone && plan.row_partials[row_group].num_partials == 1;
        });
        const bool merges = !alone && can_merge(tile, splits, splitter.splits(), plan);
        int64_t& end = tile.wide ? wide_end : narrow_end;
        of_tiles_[i] = {alone ? kWritesOutput : static_cast<int32_t>(end), merges};
        if (!alone) end += int64_t{splits.count - (merges ? 1 : 0)} * tile.item.num_vectors;
        if (alone || merges) for_each_row_group(tile, plan, [&](size_t row_group, int32_t) { merged_[row_group] = 1; });
    }
    return narrow_end <= bounds_.narrow && wide_end <= bounds_.narrow + bounds_.wide;
}

// Lists, for each row group, the partial results that are merged by another than the item that writes them.
void MergePlanner::list_partials(std::span<const QueryTile> tiles, const Splitter& splitter,
                                 AttentionPlan& plan) const {
    int32_t listed = 0;
    for (size_t i = 0; i < plan.row_partials.size(); ++i) {
        RowPartials& partials = plan.row_partials[i];
        partials.first_partial = listed;
        listed += partials.num_partials - (merged_[i] != 0 ? 1 : 0);
        partials.num_partials = 0;
    }
    plan.partials.resize(listed);
    for (size_t i = 0; i < tiles.size(); ++i) {
        const TileResults& results = of_tiles_[i];
        if (results.partial == kWritesOutput) continue;
        const int32_t count = splitter.of_tiles()[i].count - (results.merges ? 1 : 0);
        for_each_row_group(tiles[i], plan, [&](size_t row_group, int32_t vector) {
            RowPartials& list = plan.row_partials[row_group];
            for (int32_t split = 0; split < count; ++split) {
                plan.partials[list.first_partial + list.num_partials++] =
                    results.partial + split * tiles[i].item.num_vectors + vector;
            }
        });
    }
}

void MergePlanner::share_merges(const Overlap& overlap, AttentionPlan& plan) {
    plan.merges.clear();
    of_blocks_.clear();
    find_waiting(plan);
    if (waiting_.empty()) return;
    choose_blocks(overlap);
    std::sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
        return std::pair(a.block, a.row_group) < std::pair(b.block, b.row_group);
    });
    of_blocks_.assign(narrow_blocks(shape_), MergeRange{});
    for (const Waiting& waiting : waiting_) {
        MergeRange& range = of_blocks_[waiting.block];
        if (range.count++ == 0) range.first = static_cast<int32_t>(plan.merges.size());
        const RowPartials& partials = plan.row_partials[waiting.row_group];
        plan.merges.push_back({waiting.row_group / groups_.count, waiting.row_group % groups_.count,
                               partials.first_partial, partials.num_partials});
    }
}

// Finds the row groups that no item merges, each with the block of the last of its narrow splits: that block's results
// may be published as late as those of the split.
void MergePlanner::find_waiting(const AttentionPlan& plan) {
    waiting_.clear();
    for (size_t i = 0; i < plan.row_partials.size(); ++i) {
        if (plan.row_partials[i].num_partials > 0 && merged_[i] == 0)
            waiting_.push_back({last_block_[i], static_cast<int32_t>(i)});
    }
}

// Settles the block of each. An early block merges no more than its equal share; what exceeds that, and what only wide
// items bring, is divided evenly among the blocks after the early ones.
void MergePlanner::choose_blocks(const Overlap& overlap) {
    const int32_t blocks = narrow_blocks(shape_);
    const int64_t share = divide_up(static_cast<int64_t>(waiting_.size()), blocks);
    of_blocks_.assign(blocks, MergeRange{});  // counts of those that are settled
    int64_t open = 0;
    for (Waiting& waiting : waiting_) {
        int32_t& count = of_blocks_[std::max(waiting.block, 0)].count;
        if (waiting.block < 0 || (waiting.block < overlap.early_blocks && count >= share)) {
            waiting.block = -1;
            ++open;
        } else {
            ++count;
        }
    }
    const int64_t late_blocks = blocks - overlap.early_blocks;
    int64_t given = 0;
    for (Waiting& waiting : waiting_) {
        if (waiting.block >= 0) continue;
        assert(open > 0);  // it was counted above
        waiting.block = overlap.early_blocks + static_cast<int32_t>(given++ * late_blocks / open);
    }
}

}  // namespace nanolith::cuda
