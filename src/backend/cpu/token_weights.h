// How much the rows of a probed sequence attend to each token that they see (Probe in backend/batch.h), on the CPU.
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

// Adds to weights[t], for each token t of the sequence's segments in order, the sum over rows and query heads of its
// softmax weights. Two passes, each of which computes the scores: the first gives the log-sum-exp of each query's
// scores over all pages, the second exp(score - log-sum-exp), which is the token's softmax weight. Flops: 4 * head_dim
// a query and visible key; each pass reads the keys once for each KV head and all rows. The order of sums follows from
// the sequence alone. Throws std::bad_alloc.
void add_token_weights(const ProbedAttention& of, ThreadPool& pool, std::span<double> weights);

}  // namespace nanolith::cpu
