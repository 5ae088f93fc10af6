// Where an item's query vectors are, and what they see.
#pragma once

#include "attention/attention.h"

namespace nanolith::cuda {

struct VectorPlace {
    int row;
    int head;      // query head
    int position;  // counted like the spans' bases
};

__device__ inline VectorPlace vector_place(const WorkView& work, const AttentionItem& item, int group, int kv_head,
                                           int m) {
    const int vector = item.first_vector + m;
    const QueryRow query = work.queries[item.first_query + vector / group];
    return {query.row, kv_head * group + vector % group, query.position};
}

// Tokens [first, end) of a span.
struct Visible {
    int first;
    int end;
};

// Of a row that stands `position` tokens behind the beginning of the span's segment.
template <typename T>
__device__ Visible visible_tokens(const AttentionArguments<T>& a, const Span& span, int position) {
    if (!a.causal) return {span.first_token, span.end_token};
    const int end = min(span.end_token, position + 1);
    const int first = a.window > 0 ? max(span.first_token, position - a.window + 1) : span.first_token;
    return {first, end};
}

}  // namespace nanolith::cuda
