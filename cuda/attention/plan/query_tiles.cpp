#include "attention/plan/query_tiles.h"

#include <algorithm>

namespace nanolith::cuda {

namespace {

// Whether `rows` rows that attend to the same `tokens` tokens are computed by the wide kernel, rather than a narrow
// one.
bool is_wide(const PlanShape& shape, int64_t rows, int64_t tokens) {
    return tile_vectors(shape, rows * shape.heads_per_kv(), tokens) > max_narrow_vectors(shape);
}

}  // namespace

QueryTiler::QueryTiler(const PlanShape& shape, int64_t max_rows)
    : shape_(shape), groups_(head_groups(shape)), cascades_(shape, max_rows) {}

void QueryTiler::cut(const AttentionStep& step, bool with_cascades, AttentionPlan& plan) {
    plan.queries.clear();
    plan.spans.clear();
    tiles_.clear();
    cascades_.clear(step);
    if (with_cascades) cascades_.find(step);
    for (size_t i = 0; i < cascades_.count(); ++i) add_cascade(step, cascades_.uses(i), plan);
    for (const Sequence& sequence : step.sequences) add_sequence(step, sequence, plan);
}

// The rows of all sequences that use a segment, with positions counted from the segment's beginning, and one span.
void QueryTiler::add_cascade(const AttentionStep& step, std::span<const SegmentUse> uses, AttentionPlan& plan) {
    const auto first_query = static_cast<int32_t>(plan.queries.size());
    for (const SegmentUse& use : uses) {
        const Sequence& sequence = step.sequences[use.sequence];
        const int32_t base = step.segments[use.segment].base;
        for (int32_t i = 0; i < sequence.num_rows; ++i) {
            const int32_t row = sequence.first_row + i;
            plan.queries.push_back({row, step.positions[row] - base});
        }
    }
    const auto num_rows = static_cast<int32_t>(plan.queries.size()) - first_query;
    const auto span = static_cast<int32_t>(plan.spans.size());
    const Segment& segment = step.segments[uses.front().segment];
    plan.spans.push_back({segment.first_page, 0, segment.length, 0});
    const int32_t tile_rows = rows_per_tile(shape_, num_rows, segment.length);
    const bool wide = is_wide(shape_, num_rows, segment.length);
    for (int32_t first = 0; first < num_rows; first += tile_rows) {
        add_tiles({first_query + first, std::min(tile_rows, num_rows - first), wide}, span, 1, plan);
    }
}

// The rows of a sequence and its segments that are not part of a cascade.
void QueryTiler::add_sequence(const AttentionStep& step, const Sequence& sequence, AttentionPlan& plan) {
    const auto first_query = static_cast<int32_t>(plan.queries.size());
    for (int32_t i = 0; i < sequence.num_rows; ++i) {
        const int32_t row = sequence.first_row + i;
        plan.queries.push_back({row, step.positions[row]});
    }
    bool in_cascade = false;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        in_cascade = in_cascade || cascades_.contains(sequence.first_segment + i);
    }
    const int64_t tokens = own_tokens(step, sequence);
    const int32_t tile_rows = rows_per_tile(shape_, sequence.num_rows, tokens);
    const bool wide = is_wide(shape_, sequence.num_rows, tokens);
    for (int32_t first = 0; first < sequence.num_rows; first += tile_rows) {
        const int32_t rows = std::min(tile_rows, sequence.num_rows - first);
        const auto first_span = static_cast<int32_t>(plan.spans.size());
        const int32_t spans = add_spans(step, sequence, first, first + rows - 1, plan);
        // Rows that attend to nothing at all still need an item that writes their output.
        if (spans > 0 || !in_cascade) add_tiles({first_query + first, rows, wide}, first_span, spans, plan);
    }
}

// Adds what rows [first_row, last_row] of a sequence attend to in the segments that are not part of a cascade. Returns
// the number of spans.
int32_t QueryTiler::add_spans(const AttentionStep& step, const Sequence& sequence, int32_t first_row, int32_t last_row,
                              AttentionPlan& plan) const {
    const int32_t first_position = step.positions[sequence.first_row + first_row];
    const int32_t last_position = step.positions[sequence.first_row + last_row];
    int32_t spans = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const size_t index = sequence.first_segment + i;
        if (cascades_.contains(index)) continue;
        const Segment& segment = step.segments[index];
        Span span{segment.first_page, 0, segment.length, segment.base};
        if (shape_.causal) {
            span.end_token = std::min(span.end_token, last_position - segment.base + 1);
            if (shape_.window > 0) {
                const int32_t window_begin = first_position - segment.base - shape_.window + 1;
                span.first_token = std::max(0, window_begin) / kNarrowTokens * kNarrowTokens;
            }
        }
        if (span.first_token >= span.end_token) continue;
        plan.spans.push_back(span);
        ++spans;
    }
    return spans;
}

// How many tokens the sequence reads by itself: those of its segments that are not part of a cascade, but no more than
// a window lets its rows see.
int64_t QueryTiler::own_tokens(const AttentionStep& step, const Sequence& sequence) const {
    int64_t tokens = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const size_t index = sequence.first_segment + i;
        if (!cascades_.contains(index)) tokens += step.segments[index].length;
    }
    return shape_.window > 0 ? std::min(tokens, int64_t{shape_.window} + sequence.num_rows) : tokens;
}

// Adds one query tile for each head group. All have these rows, and the spans [first_span, first_span + num_spans).
void QueryTiler::add_tiles(const RowsOfTile& rows, int32_t first_span, int32_t num_spans, const AttentionPlan& plan) {
    const int32_t heads_per_kv = shape_.heads_per_kv();
    int32_t kv_tiles = 0;
    for (int32_t i = 0; i < num_spans; ++i) kv_tiles += kv_tiles_of(plan.spans[first_span + i]);
    for (int32_t group = 0; group < groups_.count; ++group) {
        QueryTile tile{};
        tile.item.first_query = rows.first_query;
        tile.item.first_vector = group * groups_.heads;
        tile.item.num_vectors = rows.num_rows * std::min(groups_.heads, heads_per_kv - tile.item.first_vector);
        tile.item.first_span = first_span;
        tile.item.num_spans = num_spans;
        tile.kv_tiles = kv_tiles;
        tile.wide = rows.wide;
        tiles_.push_back(tile);
    }
}

void TileTotals::count(std::span<const QueryTile> tiles) {
    narrow_tiles = 0;
    narrow_kv_tiles = 0;
    longest_narrow = 1;
    wide_kv_tiles.clear();
    all_wide_kv_tiles = 0;
    wide_kv_tiles_read = 0;
    int32_t span = -1;  // the first one of the wide query tile before
    for (const QueryTile& tile : tiles) {
        if (!tile.wide) {
            ++narrow_tiles;
            narrow_kv_tiles += tile.kv_tiles;
            longest_narrow = std::max<int64_t>(longest_narrow, tile.kv_tiles);
            continue;
        }
        wide_kv_tiles.push_back(tile.kv_tiles);
        all_wide_kv_tiles += tile.kv_tiles;
        if (tile.item.first_span != span) wide_kv_tiles_read += tile.kv_tiles;
        span = tile.item.first_span;
    }
}

}  // namespace nanolith::cuda
