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
    // `form`: what compact_form() of weight_form.h says. `together`: the caller reads rows in runs of this length, each
    // from a multiple of it on (the rows of a strip or tile). The reader then reads several rows of a run from the file
    // at once. 1: rows are read one by one.
    CompactReader(const WeightView& weight, const CompactForm& form, int64_t together = 1);

    // Reads the row of this output, or quantises it, and gives its scale: NaN where something of the row is not finite,
    // so that all of it is NaN then. Kernels need not look for such numbers.
    float read(int64_t output);
    // The blocks of the row that was read last.
    [[nodiscard]] std::span<const CompactBlock> blocks() const { return blocks_of_row(output_); }

  private:
    // As many rows are read at once as have at most so many blocks together, 22 KB, so that these stay in the L1 cache
    // until they are used; at least one row.
    static constexpr int64_t kBlocksAtOnce = 64;

    void read_rows(int64_t output);
    [[nodiscard]] std::span<const CompactBlock> blocks_of_row(int64_t output) const {
        return std::span(blocks_).subspan(static_cast<size_t>((output - first_) * blocks_per_row_),
                                          static_cast<size_t>(blocks_per_row_));
    }

    const WeightView& weight_;
    const CompactForm form_;
    const int64_t together_;
    const int64_t blocks_per_row_;
    int64_t rows_at_once_ = 1;
    std::vector<CompactBlock> blocks_;
    // The outputs whose rows have been read: [first_, end_); of these, the one that was asked for last.
    int64_t first_ = 0;
    int64_t end_ = 0;
    int64_t output_ = 0;
    std::vector<float> wide_;  // the row before it is quantised
};

}  // namespace nanolith
