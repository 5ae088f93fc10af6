// Turns slices of jobs into the Batch of one step.
#pragma once

#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "engine/job.h"

namespace nanolith {

// Jobs of a step whose logits are wanted, at most.
constexpr size_t kMaxKeptLogits = 8;

// A job's rows in the current step, and where its result is found.
struct Slice {
    Job* job = nullptr;
    int32_t num_rows = 0;
    int32_t output_index = -1;  // -1: the job is not finished by this step
};

class BatchBuilder {
  public:
    BatchBuilder(int32_t page_size, int32_t max_rows) : page_size_(page_size), max_rows_(max_rows) {}

    void clear();
    // Adds as many of the job's rows as fit; false when none did.
    bool add(Job& job);

    [[nodiscard]] const Batch& batch() const { return batch_; }
    [[nodiscard]] const std::vector<Slice>& slices() const { return slices_; }

  private:
    int32_t place_pages(const History& history);
    void add_row(const Job& job, int32_t row);

    int32_t page_size_;
    int32_t max_rows_;
    Batch batch_;
    std::vector<int32_t> page_table_;
    std::vector<Slice> slices_;
    std::unordered_map<const void*, int32_t> placed_;  // where shared segments of this batch begin in the page table
};

}  // namespace nanolith
