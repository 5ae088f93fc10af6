#include "attention/plan/work_arrays.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "attention/wide/wide.h"

namespace nanolith::cuda {

namespace {

// 0 stays 0 without a `least`.
size_t round_up(size_t count, size_t least = 0) {
    return count == 0 && least == 0 ? 0 : std::bit_ceil(std::max(count, least));
}

// Elements that the small arrays of steps with few row groups have room for at least, so that their counts stay as
// contexts grow and query tiles are split into more.
size_t least_room(size_t row_groups) {
    return row_groups <= 16 ? 64 : row_groups <= 64 ? 256 : 0;
}

template <typename T>
void put_all(std::byte* to, const std::vector<T>& from, size_t count) {
    nanolith::cuda::put(to, std::span<const T>(from), count);
}

}  // namespace

WorkCounts count_work(const AttentionPlan& plan) {
    WorkCounts counts;
    counts.short_counts = plan.short_plan.counts;
    if (counts.short_counts.sequences > 0) {
        counts.short_tiles = round_up(plan.short_plan.tiles.size(), 64);
        return counts;
    }
    const size_t least = least_room(plan.row_partials.size());
    counts.row_partials = plan.row_partials.size();
    counts.queries = round_up(plan.queries.size(), least);
    counts.spans = round_up(plan.spans.size(), least);
    counts.narrow = round_up(plan.narrow.size());
    counts.wide = round_up(plan.wide.size());
    counts.partials = round_up(plan.partials.size(), least);
    counts.merges = round_up(plan.merges.size(), least);
    counts.appends = plan.appends;
    return counts;
}

AttentionLaunch launch_of(const WorkCounts& counts, const PlanShape& shape) {
    AttentionLaunch what;
    what.kernel = shape.kernel;
    what.fp8 = shape.fp8;
    what.narrow_blocks = counts.narrow > 0 ? narrow_blocks(shape) : 0;
    what.wide_items = static_cast<int>(counts.wide);
    what.pairs = shape.wide_vectors > kWideVectors;
    return what;
}

WorkArrays::WorkArrays(Layout& layout, const WorkCounts& counts)
    : counts_(counts),
      row_partials_(layout.reserve<RowPartials>(counts.row_partials)),
      queries_(layout.reserve<QueryRow>(counts.queries)),
      spans_(layout.reserve<Span>(counts.spans)),
      narrow_(layout.reserve<NarrowItem>(counts.narrow)),
      wide_(layout.reserve<WideItem>(counts.wide)),
      partials_(layout.reserve<int32_t>(counts.partials)),
      merges_(layout.reserve<Merge>(counts.merges)),
      short_sequences_(layout.reserve<ShortSequence>(static_cast<size_t>(counts.short_counts.sequences))),
      short_tiles_(layout.reserve<ShortTile>(counts.short_tiles)),
      short_rows_(layout.reserve<ShortRow>(counts.short_tiles > 0 ? kShortRows : 0)) {}

void WorkArrays::put(std::byte* base, const AttentionPlan& plan) const {
    put_all(base + row_partials_, plan.row_partials, 0);
    put_all(base + queries_, plan.queries, 0);
    put_all(base + spans_, plan.spans, 0);
    put_all(base + narrow_, plan.narrow, counts_.narrow);
    put_all(base + wide_, plan.wide, counts_.wide);
    put_all(base + partials_, plan.partials, 0);
    put_all(base + merges_, plan.merges, 0);
    if (counts_.short_counts.sequences == 0) return;
    put_all(base + short_sequences_, plan.short_plan.sequences, 0);
    put_all(base + short_tiles_, plan.short_plan.tiles, 0);
    put_all(base + short_rows_, plan.short_plan.rows, 0);
}

WorkView WorkArrays::view(const std::byte* base) const {
    WorkView view;
    view.row_partials = reinterpret_cast<const RowPartials*>(base + row_partials_);
    view.queries = reinterpret_cast<const QueryRow*>(base + queries_);
    view.spans = reinterpret_cast<const Span*>(base + spans_);
    view.narrow = reinterpret_cast<const NarrowItem*>(base + narrow_);
    view.wide = reinterpret_cast<const WideItem*>(base + wide_);
    view.partials = reinterpret_cast<const int32_t*>(base + partials_);
    view.merges = reinterpret_cast<const Merge*>(base + merges_);
    return view;
}

ShortView WorkArrays::short_view(const std::byte* base) const {
    return {reinterpret_cast<const ShortSequence*>(base + short_sequences_),
            reinterpret_cast<const ShortTile*>(base + short_tiles_),
            reinterpret_cast<const ShortRow*>(base + short_rows_)};
}

}  // namespace nanolith::cuda
