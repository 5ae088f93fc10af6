#include "attention/plan/plan.h"

#include "attention/plan/appending.h"
#include "attention/plan/items.h"
#include "attention/plan/wide_order.h"

namespace nanolith::cuda {

AttentionPlanner::AttentionPlanner(const PlanShape& shape, int64_t max_rows)
    : shape_(shape), tiler_(shape, max_rows), splitter_(shape), merging_(shape, max_rows) {}

const AttentionPlan& AttentionPlanner::plan(const AttentionStep& step, const WrittenRows& written) {
    if (plan_short(shape_, step, written, plan_.short_plan)) {
        plan_.queries.clear();
        plan_.spans.clear();
        plan_.narrow.clear();
        plan_.wide.clear();
        plan_.row_partials.clear();
        plan_.partials.clear();
        plan_.merges.clear();
        plan_.appends = false;
        return plan_;
    }
    // Cascades and the overlap of wide and narrow items bring partial results, and there may be no room for all of
    // them. Without both there is.
    constexpr struct {
        bool cascades;
        bool overlap;
    } kAttempts[] = {{true, true}, {true, false}, {false, false}};
    for (const auto& attempt : kAttempts) {
        if (shape_.batch_invariant && (attempt.cascades || attempt.overlap)) continue;
        tiler_.cut(step, attempt.cascades, plan_);
        splitter_.split(tiler_.tiles(), attempt.overlap);
        if (merging_.assign_partials(tiler_.tiles(), splitter_, step.positions.size(), plan_)) {
            break;
        }
    }
    merging_.share_merges(splitter_.overlap(), plan_);
    write_items(shape_, step, written, tiler_.tiles(), splitter_, merging_, plan_);
    order_wide(shape_, plan_);
    plan_.appends = items_append(shape_, step, written, plan_);
    return plan_;
}

}  // namespace nanolith::cuda
