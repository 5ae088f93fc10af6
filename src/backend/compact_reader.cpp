#include "backend/compact_reader.h"

#include <algorithm>
#include <limits>

#include "backend/read_weight.h"

namespace nanolith {

CompactReader::CompactReader(const WeightView& weight, const CompactForm& form, int64_t together)
    : weight_(weight), form_(form), together_(together), blocks_per_row_(compact_blocks(weight.cols)) {
    const bool one_by_one = weight.compact == nullptr || !weight.order.empty() || blocks_per_row_ == 0;
    rows_at_once_ = one_by_one ? 1 : std::clamp<int64_t>(kBlocksAtOnce / blocks_per_row_, 1, together);
    blocks_.resize(static_cast<size_t>(rows_at_once_ * blocks_per_row_));
    if (weight.compact == nullptr) wide_.resize(static_cast<size_t>(weight.cols));
}

// Reads the row of this output and those behind it of the same run, as many as there is room for.
void CompactReader::read_rows(int64_t output) {
    first_ = output;
    end_ = std::min({output + rows_at_once_, (output / together_ + 1) * together_, weight_.rows});
    weight_.compact->read_rows(weight_, stored_row(weight_, output), end_ - first_, blocks_.data());
}

float CompactReader::read(int64_t output) {
    output_ = output;
    if (weight_.compact == nullptr) {
        first_ = output;
        read_weight(weight_, output * weight_.cols, weight_.cols, wide_.data());
        return quantise_row(form_.codes, wide_.data(), weight_.cols, blocks_.data());
    }
    if (output < first_ || output >= end_) read_rows(output);
    const bool finite =
        std::ranges::all_of(blocks(), [&](const CompactBlock& block) { return is_finite(form_, block); });
    return finite ? weight_.compact->row_scale(weight_, stored_row(weight_, output))
                  : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace nanolith
