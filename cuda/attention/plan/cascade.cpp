#include "attention/plan/cascade.h"

#include <algorithm>
#include <utility>

#include "attention/plan/bounds.h"

namespace nanolith::cuda {

CascadeFinder::CascadeFinder(const PlanShape& shape, int64_t max_rows)
    : shape_(shape), num_groups_(head_groups(shape).count), max_partials_(cascade_allowance(shape, max_rows)) {}

void CascadeFinder::clear(const AttentionStep& step) {
    in_cascade_.assign(step.segments.size(), 0);
    cascades_.clear();
    partials_ = 0;
}

void CascadeFinder::find(const AttentionStep& step) {
    if (step.sequences.size() < 2) return;
    uses_.clear();
    for (size_t i = 0; i < step.sequences.size(); ++i) {
        const Sequence& sequence = step.sequences[i];
        for (int32_t j = 0; j < sequence.num_segments; ++j) {
            uses_.push_back({sequence.first_segment + j, static_cast<int32_t>(i)});
        }
    }
    const auto pages = [&](const SegmentUse& use) {
        const Segment& segment = step.segments[use.segment];
        return std::pair(segment.first_page, segment.length);
    };
    std::sort(uses_.begin(), uses_.end(), [&](const SegmentUse& a, const SegmentUse& b) {
        return std::pair(pages(a), a.segment) < std::pair(pages(b), b.segment);
    });
    for (size_t first = 0; first < uses_.size();) {
        size_t end = first + 1;
        while (end < uses_.size() && pages(uses_[end]) == pages(uses_[first])) ++end;
        if (end - first > 1) consider(step, {first, end - first});
        first = end;
    }
}

std::span<const SegmentUse> CascadeFinder::uses(size_t cascade) const {
    const Range& range = cascades_[cascade];
    return std::span(uses_).subspan(range.first, range.count);
}

// Adds the uses as a cascade if that takes less time than each sequence reading the segment on its own.
void CascadeFinder::consider(const AttentionStep& step, Range range) {
    const auto uses = std::span(uses_).subspan(range.first, range.count);
    const int32_t length = step.segments[uses.front().segment].length;
    int64_t rows = 0;
    int64_t own_tiles = 0;
    for (const SegmentUse& use : uses) {
        const int32_t own_rows = step.sequences[use.sequence].num_rows;
        rows += own_rows;
        own_tiles += count_tiles(own_rows, length);
    }
    // Of each vector there are two partial results: of the cascade, and of what the sequence has of its own.
    const int64_t partials = 2 * rows * shape_.heads_per_kv();
    if (partials_ + partials > max_partials_) return;
    if (!pays(length, rows, own_tiles)) return;
    partials_ += partials;
    cascades_.push_back(range);
    for (const SegmentUse& use : uses) in_cascade_[use.segment] = 1;
}

// If `rows` rows attend to the same `tokens` tokens: how many query tiles they are cut into.
int64_t CascadeFinder::count_tiles(int64_t rows, int64_t tokens) const {
    return divide_up(rows, rows_per_tile(shape_, rows, tokens)) * num_groups_;
}

// Whether reading a segment of `length` tokens once for `rows` rows of all sequences saves more than merging costs,
// where otherwise `own_tiles` query tiles of the single sequences read it.
bool CascadeFinder::pays(int64_t length, int64_t rows, int64_t own_tiles) const {
    const auto kv_tiles = static_cast<double>(divide_up(length, kNarrowTokens));
    // Microseconds to read one KV tile of all KV heads.
    const double tile_time = static_cast<double>(shape_.tile_bytes) * shape_.num_kv_heads / kMemoryRate;
    const double saved = static_cast<double>(own_tiles - count_tiles(rows, length)) * kv_tiles * tile_time;
    // Of each vector two partial results are written and read: 4 head_dims of float32, a sixteenth of a KV tile.
    const double spent = kMergeCost + static_cast<double>(rows * shape_.heads_per_kv()) * tile_time / 16;
    return saved > spent;
}

}  // namespace nanolith::cuda
