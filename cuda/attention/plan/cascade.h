// Finds the segments that several sequences use and that are worth reading once for all of them: cascade attention
// (Ye et al., FlashInfer, 2025).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/plan_shape.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// A segment as one of the sequences uses it. Sequences that share pages have segments of their own, with equal
// first_page and length, and may have different bases.
struct SegmentUse {
    int32_t segment;   // of AttentionStep::segments
    int32_t sequence;  // of AttentionStep::sequences
};

class CascadeFinder {
  public:
    // For steps of any size; the room for partial results is that of `max_rows` rows.
    CascadeFinder(const PlanShape& shape, int64_t max_rows);

    // Makes `step` the current one, without a cascade.
    void clear(const AttentionStep& step);
    // Finds the cascades of the current step, which must be the one that clear() was called with.
    void find(const AttentionStep& step);

    // What was found, valid until the next call of clear().
    [[nodiscard]] size_t count() const { return cascades_.size(); }
    [[nodiscard]] std::span<const SegmentUse> uses(size_t cascade) const;
    // Whether the segment is part of a cascade.
    [[nodiscard]] bool contains(size_t segment) const { return in_cascade_[segment] != 0; }

  private:
    // Of uses_.
    struct Range {
        size_t first;
        size_t count;
    };

    void consider(const AttentionStep& step, Range range);
    [[nodiscard]] int64_t count_tiles(int64_t rows, int64_t tokens) const;
    [[nodiscard]] bool pays(int64_t length, int64_t rows, int64_t own_tiles) const;

    const PlanShape shape_;
    const int32_t num_groups_;      // head groups of a KV head
    const int64_t max_partials_;    // vectors for each KV head
    int64_t partials_ = 0;          // of the cascades found so far
    std::vector<SegmentUse> uses_;  // sorted so that uses of the same pages follow each other
    std::vector<Range> cascades_;
    std::vector<uint8_t> in_cascade_;  // [segments]
};

}  // namespace nanolith::cuda
