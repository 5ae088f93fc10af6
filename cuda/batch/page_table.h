// The page table on the device: a copy of the caller's that is kept from step to step. A step sends only the entries
// that changed, so that it costs the same however long its contexts are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// page_table[entry] becomes `page`.
struct PageChange {
    int32_t entry = 0;
    int32_t page = 0;
};

class PageTable {
  public:
    // What a step must change so that the device has the batch's table: the batch's changed entries, or all entries
    // where the device may lack others. Valid until the next call. Allocates memory where the table has grown: *moved
    // tells whether it has a new address, and then the steps in flight on `stream` have ended.
    Result<std::span<const PageChange>> changes_of(const Batch& batch, cudaStream_t stream, bool* moved);

    // To be called once the step that makes the latest changes is submitted. Otherwise the next changes are all
    // entries.
    void changes_submitted() { known_ = true; }
    // The next changes are all entries: the device's table is not the one that they are counted from.
    void forget() { known_ = false; }

    // On the device; null before the first changes_of().
    [[nodiscard]] int32_t* data() const { return entries_.as<int32_t>(); }

  private:
    DeviceBuffer entries_;
    std::vector<PageChange> changes_;
    bool known_ = false;  // the device has the table of the batch before
};

}  // namespace nanolith::cuda
