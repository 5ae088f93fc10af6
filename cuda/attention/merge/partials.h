// Where partial results of attention meet: memory of its own for each user of the kernels.
#pragma once

#include "attention/attention.h"
#include "attention/plan/plan.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

class Partials {
  public:
    // Room for every plan of `shape` with at most `max_rows` rows; `stream` makes it ready.
    static Result<Partials> create(const PlanShape& shape, int head_dim, int64_t max_rows, cudaStream_t stream);

    [[nodiscard]] PartialView view() const;

  private:
    DeviceBuffer outputs_;
    DeviceBuffer sums_;
    DeviceBuffer counters_;
    int64_t capacity_ = 0;
    int32_t narrow_capacity_ = 0;
};

}  // namespace nanolith::cuda
