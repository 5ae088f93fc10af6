#include "backend/compact_reader.h"

#include <algorithm>
#include <limits>

#include "backend/read_weight.h"

namespace nanolith {

CompactReader::CompactReader(const WeightView& weight, const CompactForm& form)
    : weight_(weight), form_(form), blocks_(static_cast<size_t>(compact_blocks(weight.cols))) {
    if (weight.compact == nullptr) wide_.resize(static_cast<size_t>(weight.cols));
}

float CompactReader::read(int64_t output) {
    if (weight_.compact == nullptr) {
        read_weight(weight_, output * weight_.cols, weight_.cols, wide_.data());
        return quantise_row(form_.codes, wide_.data(), weight_.cols, blocks_.data());
    }
    const int64_t row = stored_row(weight_, output);
    weight_.compact->read_blocks(weight_, row, 0, static_cast<int64_t>(blocks_.size()), blocks_.data());
    const bool finite =
        std::ranges::all_of(blocks_, [&](const CompactBlock& block) { return is_finite(form_, block); });
    return finite ? weight_.compact->row_scale(weight_, row) : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace nanolith
