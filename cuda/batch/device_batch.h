// A batch on the device: everything that a step's kernels read, brought over in one copy.
//
// It is laid out in page-locked memory of the step's own (executor/step_slots.h). The step's first kernel
// (embed/embed.h) copies it to one place on the device, where it takes the place of the step before: so the host can
// lay out a step while others are in flight, and recorded steps find their arrays always at the same addresses. A copy
// by the device's copy engine would keep the multiprocessors waiting twice, before it and after it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan/work_arrays.h"
#include "batch/page_table.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// What the launches of a step and the addresses of its arrays depend on. Steps with equal shapes differ in the
// contents of device memory alone, so that one graph serves them all.
struct BatchShape {
    int32_t rows = 0;
    int32_t output_rows = 0;
    std::vector<WorkCounts> work;  // of each plan

    bool operator==(const BatchShape&) const = default;
};

// What differs from step to step though its launches do not.
struct StepHead {
    int32_t* sampled = nullptr;  // page-locked host memory that the step's draws go to
    int32_t num_changes = 0;     // of the page table
};

// What the step's first kernel reads from page-locked host memory, and what it copies to the device.
struct HostBatch {
    const StepHead* head = nullptr;
    const int32_t* tokens = nullptr;      // [rows] ids, or drawn_by()
    const PageChange* changes = nullptr;  // [head->num_changes]
    const std::byte* from = nullptr;
    std::byte* to = nullptr;  // on the device
    size_t bytes = 0;         // a multiple of 16, as both addresses are
};

// Device addresses of the arrays, once the first kernel has run.
struct BatchView {
    const StepHead* head = nullptr;
    const int32_t* key_positions = nullptr;
    const int32_t* slots = nullptr;
    const int32_t* output_rows = nullptr;
    const SampleParams* sampling = nullptr;
    std::vector<WorkView> work;  // of each plan, page_table excepted
};

class DeviceBatch {
  public:
    // Lays the batch, its plans and the changes of the page table out in `host`, which grows with the device's memory.
    // `sampled` is StepHead's. *moved tells whether the arrays have new addresses for every shape, since the device's
    // memory had to grow; the steps in flight on `stream` have ended then.
    Result<void> lay_out(const Batch& batch, std::span<const AttentionPlan* const> plans,
                         std::span<const PageChange> changes, int32_t* sampled, PinnedBuffer& host, cudaStream_t stream,
                         bool* moved);

    [[nodiscard]] const BatchShape& shape() const { return shape_; }
    [[nodiscard]] const HostBatch& host() const { return host_; }
    [[nodiscard]] const BatchView& view() const { return view_; }

  private:
    DeviceBuffer device_;
    BatchShape shape_;
    HostBatch host_;
    BatchView view_;
};

}  // namespace nanolith::cuda
