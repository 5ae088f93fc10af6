// How much the rows of a probed sequence attend to each page that they see (Probe in backend/batch.h), on the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/attention.h"

namespace nanolith::cpu {

// One layer's attention of one sequence. `queries` are those that Attention::run takes, of all rows of the step.
struct ProbedAttention {
    const AttentionShape& shape;
    const AttentionStep& step;
    const Sequence& sequence;
    const AttentionRule& rule;
    ConstHeadRows queries{};  // float32
    Pages<const void> pages{};
};

// Adds to weights[p], for each page p of the sequence's segments in order, the sum over rows and query heads of the
// softmax weights of the page's tokens. Two passes: the log-sum-exp of each query's scores within each page, and then
// their shares of the query's total. Flops: 2 * head_dim a query and visible key; the keys are read once for each KV
// head and all rows. The order of sums follows from the sequence alone. Throws std::bad_alloc.
void add_page_weights(const ProbedAttention& of, ThreadPool& pool, std::span<double> weights);

}  // namespace nanolith::cpu
