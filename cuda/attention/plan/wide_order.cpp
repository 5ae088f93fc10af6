#include "attention/plan/wide_order.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace nanolith::cuda {

namespace {

// Bytes of keys and values that a group may have: about half of the L2 cache.
constexpr int64_t kCacheBytes = 24 << 20;
// Work of fewer items than this on each multiprocessor is one group.
constexpr int64_t kFewItems = 4;

int32_t tokens_of(const AttentionItem& item, const AttentionPlan& plan) {
    int32_t tokens = 0;
    for (int32_t i = 0; i < item.num_spans; ++i) {
        const Span& span = plan.spans[item.first_span + i];
        tokens += span.end_token - span.first_token;
    }
    return tokens;
}

// Whether plan.wide[i] is the last item of its sequence: items that read the same tokens follow each other, and a later
// one reads at least as many of them.
bool ends_sequence(const AttentionPlan& plan, size_t i) {
    if (i + 1 == plan.wide.size()) return true;
    const WideItem& item = plan.wide[i];
    const WideItem& next = plan.wide[i + 1];
    return next.span.first_page != item.span.first_page || tokens_of(next.item, plan) < tokens_of(item.item, plan);
}

// Tokens that all sequences read, each counted once.
int64_t count_tokens(const AttentionPlan& plan) {
    int64_t tokens = 0;
    for (size_t i = 0; i < plan.wide.size(); ++i) {
        if (ends_sequence(plan, i)) tokens += tokens_of(plan.wide[i].item, plan);
    }
    return tokens;
}

void sort_costliest_first(std::span<WideItem> items, const AttentionPlan& plan) {
    std::stable_sort(items.begin(), items.end(), [&](const WideItem& a, const WideItem& b) {
        return tokens_of(a.item, plan) > tokens_of(b.item, plan);
    });
}

// Sorts each group of whole sequences, which ends where it has `share` tokens. Returns the most tokens of a group.
int64_t sort_groups(AttentionPlan& plan, int64_t share) {
    int64_t most = 0;
    int64_t tokens = 0;  // of the current group
    size_t first = 0;    // item of the current group
    for (size_t i = 0; i < plan.wide.size(); ++i) {
        if (!ends_sequence(plan, i)) continue;
        tokens += tokens_of(plan.wide[i].item, plan);
        if (tokens < share && i + 1 < plan.wide.size()) continue;
        sort_costliest_first(std::span(plan.wide).subspan(first, i + 1 - first), plan);
        most = std::max(most, tokens);
        first = i + 1;
        tokens = 0;
    }
    return most;
}

}  // namespace

void order_wide(const PlanShape& shape, AttentionPlan& plan) {
    const int64_t heads = shape.num_kv_heads;
    const bool one_group = static_cast<int64_t>(plan.wide.size()) * heads < kFewItems * shape.multiprocessors;
    // Tokens of one KV head that the cache holds.
    const int64_t cached = std::max<int64_t>(1, kCacheBytes * kNarrowTokens / shape.tile_bytes);
    const int64_t all_tokens = count_tokens(plan);
    const int64_t groups = one_group ? 1 : std::max<int64_t>(1, divide_up(all_tokens * heads, cached));
    const int64_t largest = sort_groups(plan, divide_up(all_tokens, groups));
    const int64_t heads_cached = std::max<int64_t>(1, cached / std::max<int64_t>(1, largest));
    // As few passes over the group as the cache allows, with the heads divided evenly among them.
    const bool all_heads = one_group || heads_cached >= heads;
    const int64_t at_once = all_heads ? 0 : divide_up(heads, divide_up(heads, heads_cached));
    for (WideItem& item : plan.wide) item.kv_heads_at_once = static_cast<int32_t>(at_once);
}

}  // namespace nanolith::cuda
