// Phase 1 of planning, cutting along the rows: the rows of a step become query tiles.
//
// A query tile is at most as many query vectors as a kernel holds at once, and the spans that all of them attend to. A
// segment that several sequences use becomes query tiles over the rows of all of them where that pays (cascade.h); what
// is left of each sequence becomes query tiles of that sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/attention_plan.h"
#include "attention/plan/cascade.h"
#include "attention/plan/plan_shape.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

struct QueryTile {
    AttentionItem item;  // its vectors and spans; `partial` is of no meaning yet
    int32_t kv_tiles;    // of all its spans
    bool wide;           // for the wide kernel
};

// The rows of a query tile: plan.queries[first_query] and the ones behind it.
struct RowsOfTile {
    int32_t first_query;
    int32_t num_rows;
    bool wide;  // whether the tile is for the wide kernel; otherwise it is for the narrow one
};

class QueryTiler {
  public:
    QueryTiler(const PlanShape& shape, int64_t max_rows);

    // Writes plan.queries and plan.spans, and the tiles that name them.
    void cut(const AttentionStep& step, bool with_cascades, AttentionPlan& plan);

    // Of the latest call of cut(): first those of cascades, then those of sequences.
    [[nodiscard]] std::span<const QueryTile> tiles() const { return tiles_; }

  private:
    void add_cascade(const AttentionStep& step, std::span<const SegmentUse> uses, AttentionPlan& plan);
    void add_sequence(const AttentionStep& step, const Sequence& sequence, AttentionPlan& plan);
    int32_t add_spans(const AttentionStep& step, const Sequence& sequence, int32_t first_row, int32_t last_row,
                      AttentionPlan& plan) const;
    [[nodiscard]] int64_t own_tokens(const AttentionStep& step, const Sequence& sequence) const;
    void add_tiles(const RowsOfTile& rows, int32_t first_span, int32_t num_spans, const AttentionPlan& plan);

    const PlanShape shape_;
    const HeadGroups groups_;
    CascadeFinder cascades_;
    std::vector<QueryTile> tiles_;
};

// KV tiles of a span. Its first token is the beginning of one.
inline int32_t kv_tiles_of(const Span& span) {
    return static_cast<int32_t>(divide_up(span.end_token - span.first_token, kNarrowTokens));
}

// Sums over the query tiles of a step, which the shares of the multiprocessors follow from. All are for one KV head.
struct TileTotals {
    int64_t narrow_tiles = 0;            // query tiles
    int64_t narrow_kv_tiles = 0;         // of all narrow query tiles
    int64_t longest_narrow = 1;          // the most KV tiles of a narrow query tile, but at least 1
    std::vector<int32_t> wide_kv_tiles;  // of each wide query tile
    int64_t all_wide_kv_tiles = 0;       // their sum
    int64_t wide_kv_tiles_read = 0;      // those that come from memory: query tiles with the same spans share them

    // Replaces all of these with the sums over `tiles`, keeping the memory.
    void count(std::span<const QueryTile> tiles);
};

}  // namespace nanolith::cuda
