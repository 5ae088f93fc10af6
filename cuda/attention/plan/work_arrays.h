// The arrays of an attention plan in one block of memory, as the host lays them out and the device reads them.
#pragma once

#include "attention/attention.h"
#include "attention/plan/attention_plan.h"
#include "attention/plan/plan_shape.h"
#include "batch/layout.h"

namespace nanolith::cuda {

// Elements of each array of AttentionPlan that there is room for.
struct WorkCounts {
    size_t row_partials = 0;
    size_t queries = 0;
    size_t spans = 0;
    size_t narrow = 0;
    size_t wide = 0;
    size_t partials = 0;
    size_t merges = 0;
    size_t short_tiles = 0;
    ShortCounts short_counts;
    bool appends = false;  // AttentionPlan::appends

    bool operator==(const WorkCounts&) const = default;
};

// The room that a plan gets. Counts that change from step to step as contexts grow are rounded up to powers of two, and
// to more where they are small: steps with equal counts can be launched from one recorded graph.
WorkCounts count_work(const AttentionPlan& plan);

// What is launched for a plan with so much room: elements that the plan does not fill are items without work.
AttentionLaunch launch_of(const WorkCounts& counts, const PlanShape& shape);

// Where the arrays lie in the block, as offsets in bytes. The page table is not among them: its length does not follow
// from the counts, and the caller has it elsewhere.
class WorkArrays {
  public:
    WorkArrays() = default;
    WorkArrays(Layout& layout, const WorkCounts& counts);

    // Copies the plan to the block at `base`. Room for more narrow and wide items than the plan has is filled with
    // items without work; other arrays are read no further than the plan's own elements.
    void put(std::byte* base, const AttentionPlan& plan) const;
    // The arrays of the block at `base`; page_table is not set.
    [[nodiscard]] WorkView view(const std::byte* base) const;
    // Likewise, of a plan for the short kernel.
    [[nodiscard]] ShortView short_view(const std::byte* base) const;
    [[nodiscard]] const WorkCounts& counts() const { return counts_; }

  private:
    WorkCounts counts_;
    size_t row_partials_ = 0;
    size_t queries_ = 0;
    size_t spans_ = 0;
    size_t narrow_ = 0;
    size_t wide_ = 0;
    size_t partials_ = 0;
    size_t merges_ = 0;
    size_t short_sequences_ = 0;
    size_t short_tiles_ = 0;
    size_t short_rows_ = 0;
};

}  // namespace nanolith::cuda
