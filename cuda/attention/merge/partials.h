// The device memory where attention's partial results are written and merged (PartialView). Each user of the kernels,
// an executor or a plan of nanolith_ops.h, has its own: two launches that use the same must follow each other on one
// stream.
#pragma once

#include "attention/attention.h"
#include "attention/plan/bounds.h"
#include "attention/plan/plan_shape.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

class Partials {
  public:
    // Memory for every plan that an AttentionPlanner of this shape and number of rows makes. It is ready for what is
    // launched on `stream` after the call.
    static Result<Partials> create(const PlanShape& shape, int head_dim, int64_t max_rows, cudaStream_t stream);

    [[nodiscard]] PartialView view() const;

  private:
    DeviceBuffer outputs_;         // float32 [num_kv_heads, capacity, head_dim]
    DeviceBuffer sums_;            // float32 [num_kv_heads, capacity, head_dim / 4]
    DeviceBuffer counters_;        // of the wide kernel
    int64_t capacity_ = 0;         // vectors for each KV head
    int32_t narrow_capacity_ = 0;  // of these, the first, which narrow blocks publish
};

}  // namespace nanolith::cuda
