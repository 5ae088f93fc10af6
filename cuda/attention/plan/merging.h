// Phase 3 of planning, merging: which partial results the splits of a query tile write, and who merges these.
//
// What is merged is a row group: the heads of a head group of one row, for one KV head. Its number is
// row * HeadGroups::count + head group. Each split of each query tile that it is in has a partial result of it. One of
// these splits may merge the others' partial results with its own; otherwise a block merges all of them at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/attention_plan.h"
#include "attention/plan/bounds.h"
#include "attention/plan/plan_shape.h"
#include "attention/plan/query_tiles.h"
#include "attention/plan/splits.h"

namespace nanolith::cuda {

// Where the results of a query tile go.
struct TileResults {
    // AttentionItem::partial of its first split, after which those of its other splits follow; or kWritesOutput.
    int32_t partial;
    bool merges;  // its last split merges the partial results of others with its own
};

// Merges of a block: plan.merges[first ... + count).
struct MergeRange {
    int32_t first;
    int32_t count;
};

class MergePlanner {
  public:
    MergePlanner(const PlanShape& shape, int64_t max_rows);

    // Writes plan.row_partials and plan.partials from the query tiles, their splits and plan.queries. Returns false
    // where there is no room for all partial results; the plan is of no use then, but complete.
    bool assign_partials(std::span<const QueryTile> tiles, const Splitter& splitter, size_t num_rows,
                         AttentionPlan& plan);
    // Divides the row groups that no item merges among the blocks: writes plan.merges. After assign_partials().
    void share_merges(const Overlap& overlap, AttentionPlan& plan);

    // [query tiles]
    [[nodiscard]] std::span<const TileResults> of_tiles() const { return of_tiles_; }
    // [narrow_blocks()], or empty: there is nothing to merge
    [[nodiscard]] std::span<const MergeRange> of_blocks() const { return of_blocks_; }

  private:
    // A row group that no item merges, and the block that does; -1: not known yet.
    struct Waiting {
        int32_t block;
        int32_t row_group;
    };

    template <typename Visit>
    void for_each_row_group(const QueryTile& tile, const AttentionPlan& plan, const Visit& visit) const;
    void count_splits(std::span<const QueryTile> tiles, const Splitter& splitter, size_t num_rows, AttentionPlan& plan);
    [[nodiscard]] bool can_merge(const QueryTile& tile, const TileSplits& tile_splits, std::span<const Split> splits,
                                 const AttentionPlan& plan) const;
    bool number_partials(std::span<const QueryTile> tiles, const Splitter& splitter, const AttentionPlan& plan);
    void list_partials(std::span<const QueryTile> tiles, const Splitter& splitter, AttentionPlan& plan) const;
    void find_waiting(const AttentionPlan& plan);
    void choose_blocks(const Overlap& overlap);

    const PlanShape shape_;
    const HeadGroups groups_;
    const PartialBounds bounds_;
    std::vector<TileResults> of_tiles_;
    std::vector<int32_t> narrow_splits_;  // [row groups]
    std::vector<int32_t> last_block_;     // [row groups] of their narrow splits; -1: there are none
    std::vector<uint8_t> merged_;         // [row groups] by an item, or there is only one
    std::vector<Waiting> waiting_;
    std::vector<MergeRange> of_blocks_;
};

}  // namespace nanolith::cuda
