// A batch on the device: everything that a step's kernels read, brought over in one copy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "batch/work_arrays.h"
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

// Device addresses of the arrays.
struct BatchView {
    const int32_t* tokens = nullptr;
    const int32_t* key_positions = nullptr;
    const int32_t* slots = nullptr;
    const int32_t* output_rows = nullptr;
    const SampleParams* sampling = nullptr;
    std::vector<WorkView> work;  // of each plan; their page table lies last, since only its length may differ for one
                                 // shape
};

class DeviceBatch {
  public:
    // Lays the batch and its plans out in page-locked memory. The copy of the batch before must have ended.
    // *moved tells whether the arrays have new addresses for every shape, since the memory had to grow.
    Result<void> pack(const Batch& batch, std::span<const AttentionPlan* const> plans, bool* moved);

    // Starts the copy to the device.
    Result<void> upload(cudaStream_t stream) const;

    [[nodiscard]] const BatchShape& shape() const { return shape_; }
    [[nodiscard]] const BatchView& view() const { return view_; }

  private:
    PinnedBuffer host_;
    DeviceBuffer device_;
    size_t used_ = 0;
    BatchShape shape_;
    BatchView view_;
};

}  // namespace nanolith::cuda
