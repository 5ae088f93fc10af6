// Reads the rows of a weight as compact blocks, whatever the weight is stored as.
#pragma once

#include <span>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/weight_view.h"

namespace nanolith {

// For one thread. The weight must outlive the reader.
class CompactReader {
  public:
    // `form`: what compact_form() of weight_form.h says.
    CompactReader(const WeightView& weight, const CompactForm& form);

    // Reads the row of this output, or quantises it, and gives its scale: NaN where something of the row is not finite,
    // so that all of it is NaN then. Kernels need not look for such numbers.
    float read(int64_t output);
    // The blocks of the row that was read last.
    [[nodiscard]] std::span<const CompactBlock> blocks() const { return blocks_; }

  private:
    const WeightView& weight_;
    const CompactForm form_;
    std::vector<CompactBlock> blocks_;
    std::vector<float> wide_;  // the row before it is quantised
};

}  // namespace nanolith
