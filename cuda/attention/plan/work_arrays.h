// The arrays of an attention plan in a block of memory.
#pragma once

#include "attention/attention.h"
#include "attention/plan/plan.h"
#include "batch/layout.h"

namespace nanolith::cuda {

// Elements that there is room for.
struct WorkCounts {
    size_t row_partials = 0;
    size_t queries = 0;
    size_t spans = 0;
    size_t narrow = 0;
    size_t wide = 0;
    size_t partials = 0;
    size_t merges = 0;

    bool operator==(const WorkCounts&) const = default;
};

// What a plan needs. Counts that change from step to step as contexts grow are rounded up to powers of two, and to
// more where there are few.
WorkCounts count_work(const AttentionPlan& plan);

// What is launched for a plan that fills these counts: room that it leaves is filled with no work.
AttentionLaunch launch_of(const WorkCounts& counts, const PlanShape& shape);

// Where the arrays lie, as offsets; the page table, whose length the counts don't tell, is placed by the caller.
class WorkArrays {
  public:
    WorkArrays() = default;
    WorkArrays(Layout& layout, const WorkCounts& counts);

    // Copies the plan to `base`; rooms for more items than it has become items without work.
    void put(std::byte* base, const AttentionPlan& plan) const;
    // The arrays at `base`, page_table excepted.
    [[nodiscard]] WorkView view(const std::byte* base) const;
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
};

}  // namespace nanolith::cuda
