#include "attention/plan/items.h"

#include <algorithm>
#include <climits>

namespace nanolith::cuda {

namespace {

constexpr int kPageTokens = 16;  // of each entry of NarrowItem::pages

// Most rows of a step whose blocks read settled tokens early. With more rows no gain stood out from the differences
// between runs (tests/bench/RESULTS.md, "few rows with long contexts").
constexpr size_t kMostSettledRows = 16;

// The item of a split, with spans of its own where it is not the whole query tile. `partial` is that of the tile.
AttentionItem split_item(const QueryTile& tile, const Split& split, AttentionPlan& plan) {
    AttentionItem item = tile.item;
    if (split.num_kv_tiles == tile.kv_tiles) return item;
    item.first_span = static_cast<int32_t>(plan.spans.size());
    item.num_spans = 0;
    int32_t skip = split.first_kv_tile;
    int32_t left = split.num_kv_tiles;
    for (int32_t i = 0; i < tile.item.num_spans && left > 0; ++i) {
        Span span = plan.spans[tile.item.first_span + i];
        const int32_t kv_tiles = kv_tiles_of(span);
        if (skip >= kv_tiles) {
            skip -= kv_tiles;
            continue;
        }
        const int32_t count = std::min(left, kv_tiles - skip);
        span.first_token += skip * kNarrowTokens;
        span.end_token = std::min(span.end_token, span.first_token + count * kNarrowTokens);
        plan.spans.push_back(span);
        ++item.num_spans;
        left -= count;
        skip = 0;
    }
    return item;
}

// Where split number `index` of a query tile writes its results: AttentionItem::partial.
int32_t partial_of(const TileResults& results, const TileSplits& splits, int32_t index, int32_t num_vectors) {
    if (results.partial == kWritesOutput) return kWritesOutput;
    if (results.merges && index + 1 == splits.count) return kMergesOthers;
    return results.partial + index * num_vectors;
}

WideItem wide_item(const PlanShape& shape, const AttentionItem& item, const AttentionPlan& plan) {
    const auto rows = static_cast<int32_t>(divide_up(item.first_vector + item.num_vectors, shape.heads_per_kv()));
    WideItem wide{item, INT32_MAX, INT32_MIN, {}, 0};
    for (int32_t i = 0; i < rows; ++i) {
        const int32_t position = plan.queries[item.first_query + i].position;
        wide.lowest = std::min(wide.lowest, position);
        wide.highest = std::max(wide.highest, position);
    }
    if (item.num_spans > 0) wide.span = plan.spans[item.first_span];
    return wide;
}

NarrowItem narrow_item(const PlanShape& shape, const AttentionStep& step, const AttentionItem& item,
                       const AttentionPlan& plan) {
    NarrowItem narrow{};
    narrow.item = item;
    narrow.next = -1;
    const QueryRow first = plan.queries[item.first_query];
    narrow.row = first.row;
    narrow.position = first.position;
    if (item.num_spans == 0) return narrow;
    narrow.span = plan.spans[item.first_span];
    int32_t token = narrow.span.first_token;
    for (int32_t& page : narrow.pages) {
        if (token >= narrow.span.end_token) break;
        page = step.page_table[narrow.span.first_page + token / shape.page_size];
        token += kPageTokens;
    }
    return narrow;
}

// NarrowItem::settled of a block's first item, in a step of at most kMostSettledRows.
int32_t settled_tokens(const PlanShape& shape, const NarrowItem& narrow, const WrittenRows& written) {
    if (narrow.item.num_spans == 0 || written.slots.empty()) return 0;
    const auto is_written = [&](int32_t page) {
        return std::ranges::any_of(written.slots,
                                   [&](int32_t slot) { return slot != kNoSlot && slot / shape.page_size == page; });
    };
    const int32_t tokens = narrow.span.end_token - narrow.span.first_token;
    int32_t settled = 0;
    for (const int32_t page : narrow.pages) {
        if (settled >= tokens || is_written(page)) break;
        settled += kPageTokens;
    }
    return std::min(settled, tokens);
}

// Appends items to the list of a block. Blocks' first items are plan.narrow[block], the others follow all of these.
class BlockLists {
  public:
    explicit BlockLists(std::vector<NarrowItem>& narrow) : narrow_(narrow) {}

    void append(int32_t block, const NarrowItem& item) {
        if (block != block_) {
            block_ = block;
            last_ = block;
            narrow_[last_] = item;
            return;
        }
        narrow_[last_].next = static_cast<int32_t>(narrow_.size());
        last_ = narrow_.size();
        narrow_.push_back(item);
    }

  private:
    std::vector<NarrowItem>& narrow_;
    int32_t block_ = -1;
    size_t last_ = 0;  // the block's latest item
};

}  // namespace

void write_items(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written,
                 std::span<const QueryTile> tiles, const Splitter& splitter, const MergePlanner& merging,
                 AttentionPlan& plan) {
    plan.narrow.clear();
    plan.wide.clear();
    const bool narrow_tiles = std::ranges::any_of(tiles, [](const QueryTile& tile) { return !tile.wide; });
    if (narrow_tiles || !plan.partials.empty()) {
        plan.narrow.assign(narrow_blocks(shape), NarrowItem{});
    }
    BlockLists blocks(plan.narrow);
    int32_t previous = -1;  // query tile
    int32_t index = 0;      // of the split among those of its query tile
    for (const Split& split : splitter.splits()) {
        const int32_t at = split.query_tile;
        index = at == previous ? index + 1 : 0;
        previous = at;
        AttentionItem item = split_item(tiles[at], split, plan);
        item.partial = partial_of(merging.of_tiles()[at], splitter.of_tiles()[at], index, item.num_vectors);
        if (tiles[at].wide) {
            plan.wide.push_back(wide_item(shape, item, plan));
        } else {
            blocks.append(split.block, narrow_item(shape, step, item, plan));
        }
    }
    const auto num_blocks = std::min(plan.narrow.size(), static_cast<size_t>(narrow_blocks(shape)));
    if (step.positions.size() <= kMostSettledRows) {
        for (NarrowItem& first : std::span(plan.narrow).first(num_blocks))
            first.settled = settled_tokens(shape, first, written);
    }
    for (size_t block = 0; block < merging.of_blocks().size(); ++block) {
        const MergeRange& merges = merging.of_blocks()[block];
        plan.narrow[block].first_merge = merges.first;
        plan.narrow[block].num_merges = merges.count;
    }
}

}  // namespace nanolith::cuda
