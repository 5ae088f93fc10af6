// The page table on the device: a copy of the caller's that stays from step to step and is brought up to date by what
// changed, so that a step costs the same however long its contexts are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// Entry `entry` becomes `page`.
struct PageChange {
    int32_t entry = 0;
    int32_t page = 0;
};

class PageTable {
  public:
    // What the step must change so that the device has the batch's table: its changed entries, or all where the device
    // may not have the rest. Makes room for them; *moved tells whether the table has a new address, and then the steps
    // in flight have ended. Valid until the next call.
    Result<std::span<const PageChange>> changes_of(const Batch& batch, cudaStream_t stream, bool* moved);

    // The step with the latest changes_of() is submitted. Without this the next changes are all entries again.
    void changes_submitted() { known_ = true; }
    // The next table has nothing to do with the one before.
    void forget() { known_ = false; }

    [[nodiscard]] int32_t* data() const { return entries_.as<int32_t>(); }

  private:
    DeviceBuffer entries_;
    std::vector<PageChange> changes_;
    bool known_ = false;
};

}  // namespace nanolith::cuda
