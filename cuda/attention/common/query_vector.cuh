// The row, query head and position of an item's query vectors, and the tokens that they attend to.
#pragma once

#include "attention/attention.h"

namespace nanolith::cuda {

struct QueryVector {
    int row;
    int head;      // query head
    int position;  // counted like the spans' bases
};

// Vector m of an item.
__device__ inline QueryVector query_vector(const WorkView& work, const AttentionItem& item, int heads_per_kv,
                                           int kv_head, int m) {
    const int vector = item.first_vector + m;
    const QueryRow query = work.queries[item.first_query + vector / heads_per_kv];
    return {query.row, kv_head * heads_per_kv + vector % heads_per_kv, query.position};
}

// The tokens [first, end) of a span that a query vector attends to.
struct VisibleTokens {
    int first;
    int end;
};

// The causal limit and the window of a row at `position`, counted from the beginning of the span's segment.
template <typename T>
__device__ VisibleTokens visible_tokens(const AttentionArguments<T>& a, const Span& span, int position) {
    if (!a.causal) return {span.first_token, span.end_token};
    const int end = min(span.end_token, position + 1);
    const int first = a.window > 0 ? max(span.first_token, position - a.window + 1) : span.first_token;
    return {first, end};
}

}  // namespace nanolith::cuda
