// The work list of a step on the host: what AttentionPlanner makes and WorkArrays copies to the device.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/plan/short_work.h"
#include "attention/plan/work.h"

namespace nanolith::cuda {

struct AttentionPlan {
    std::vector<QueryRow> queries;
    std::vector<Span> spans;
    std::vector<NarrowItem> narrow;         // empty, or the first narrow_blocks() are those that the blocks begin with
    std::vector<WideItem> wide;             // the costliest first (wide_order.h)
    std::vector<RowPartials> row_partials;  // [rows, HeadGroups::count]
    std::vector<int32_t> partials;          // the lists that RowPartials name
    std::vector<Merge> merges;              // the row groups that no item merges
    bool appends = false;                   // the narrow items write the rows' keys and values (appending.h)
    ShortPlan short_plan;                   // where it has sequences, all of the above are empty
};

}  // namespace nanolith::cuda
