// A batch on the device: everything that a step's kernels read, in one block of memory that is sent with one copy.
//
// The host writes the block to page-locked memory that belongs to the step (executor/step_slots.h). The step's first
// kernel (embed/embed.h) copies it to the device, over the block of the step before. So the host can write the block of
// a step while other steps are in flight, and the arrays of steps with equal shapes have the same addresses, as
// recorded graphs need it. A copy by the device's copy engine would keep the multiprocessors waiting before and after.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/work_arrays.h"
#include "batch/page_table.h"
#include "runtime/memory.h"
#include "sample/draw_tables.h"

namespace nanolith::cuda {

// What the launches of a step and the addresses of its arrays depend on. Steps with equal shapes differ only in the
// contents of device memory, so that one recorded graph does for all of them.
struct BatchShape {
    int32_t rows = 0;
    int32_t output_rows = 0;
    bool has_results = false;      // as has_results() of the batch
    bool draws_late = false;       // tokens are drawn by a launch of its own (late_draws.h)
    std::vector<WorkCounts> work;  // of each plan

    bool operator==(const BatchShape&) const = default;
};

// What differs between steps of equal shapes and is not an array: the kernels read it from the block.
struct StepHead {
    DrawTables draw;
    int32_t num_changes = 0;  // of the page table (PageChange)
};

// What the step's first kernel reads from page-locked host memory, and what it copies to the device.
struct HostBatch {
    const StepHead* head = nullptr;
    const int32_t* tokens = nullptr;      // [rows] ids, or drawn_by()
    const PageChange* changes = nullptr;  // [head->num_changes]
    const std::byte* from = nullptr;      // what is copied
    std::byte* to = nullptr;              // on the device
    size_t bytes = 0;                     // a multiple of 16, as both addresses are
};

// Device addresses of the arrays, once the first kernel has run.
struct BatchView {
    const StepHead* head = nullptr;
    const int32_t* key_positions = nullptr;
    const int32_t* slots = nullptr;
    const int32_t* output_rows = nullptr;
    const int32_t* state_rows = nullptr;     // for launches that no graph has
    const SampleParams* sampling = nullptr;  // not where draws_late
    std::vector<WorkView> work;              // of each plan, page_table excepted
    std::vector<ShortView> short_work;
};

class DeviceBatch {
  public:
    // Writes the batch, its plans and the changes of the page table to `host`, which is allocated anew where it is too
    // small. `draw` is StepHead::draw, but for edits, queries and masks. *moved tells whether the device's block had to
    // grow: then the arrays of every shape have new addresses, and the steps in flight on `stream` have ended.
    Result<void> lay_out(const Batch& batch, std::span<const AttentionPlan* const> plans,
                         std::span<const PageChange> changes, DrawTables draw, PinnedBuffer& host, cudaStream_t stream,
                         bool* moved);

    [[nodiscard]] const BatchShape& shape() const { return shape_; }
    [[nodiscard]] const HostBatch& host() const { return host_; }
    [[nodiscard]] const BatchView& view() const { return view_; }
    // StepHead::draw; its edits are of no use where draws_late.
    [[nodiscard]] const DrawTables& draw_tables() const { return draw_tables_; }

  private:
    DeviceBuffer device_;
    BatchShape shape_;
    HostBatch host_;
    BatchView view_;
    DrawTables draw_tables_;
};

}  // namespace nanolith::cuda
