// The row, query head and position of an item's query vectors.
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

}  // namespace nanolith::cuda
