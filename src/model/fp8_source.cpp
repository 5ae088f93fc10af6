#include "model/fp8_source.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/read_weight.h"
#include "model/scale_split.h"

namespace nanolith {
namespace {

constexpr std::array<int32_t, 4> kGroups = {32, 64, 128, 256};

// Number `block` of the scales that a row has.
float scale_of(const WeightScales& scales, int64_t row, int64_t block) {
    const int64_t first = (scales.first_row + row) / scales.block_rows * scales.row_stride;
    return number_at(scales.dtype, scales.data, first + block);
}

int64_t blocks_of_row(const WeightView& weight) {
    return (weight.cols + weight.scales.block_cols - 1) / weight.scales.block_cols;
}

float largest_scale(const WeightView& weight, int64_t row) {
    float most = 0;
    for (int64_t block = 0; block < blocks_of_row(weight); ++block)
        most = std::max(most, std::fabs(scale_of(weight.scales, row, block)));
    return most;
}

// The codes of a row's blocks, all else 0.
void read_codes(const WeightView& view, int64_t row, int64_t first, int64_t count, CompactBlock* to) {
    for (int64_t i = 0; i < count; ++i) {
        const int64_t col = (first + i) * kCompactBlock;
        to[i] = {};
        read_elements(view, row * view.cols + col, std::min(kCompactBlock, view.cols - col), to[i].codes);
    }
}

// One scale for each row, or for all of the matrix.
class RowsOfFp8 final : public CompactSource {
  public:
    [[nodiscard]] CompactForm form() const override { return quantised_form(CodeKind::e4m3); }
    void read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                     CompactBlock* to) const noexcept override {
        read_codes(view, row, first, count, to);
    }
    [[nodiscard]] float row_scale(const WeightView& view, int64_t row) const noexcept override {
        return scale_of(view.scales, row, 0);
    }
};

// A scale for each `group` columns of a block of rows, or for a multiple of them.
class GroupsOfFp8 final : public CompactSource {
  public:
    explicit GroupsOfFp8(int32_t group) : group_(group) {}

    [[nodiscard]] CompactForm form() const override {
        return {.codes = CodeKind::e4m3, .scales = ScaleKind::half, .group = group_};
    }
    void read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                     CompactBlock* to) const noexcept override {
        read_codes(view, row, first, count, to);
        const float power = row_scale(view, row);
        for (int64_t i = 0; i < count; ++i) {
            for (int64_t group = 0; group < kCompactBlock / group_; ++group) {
                const int64_t col = (first + i) * kCompactBlock + group * group_;
                if (col >= view.cols) break;
                to[i].scales[group] = divided_scale(scale_of(view.scales, row, col / view.scales.block_cols), power);
            }
        }
    }
    [[nodiscard]] float row_scale(const WeightView& view, int64_t row) const noexcept override {
        return row_power(largest_scale(view, row));
    }

  private:
    const int32_t group_;
};

bool has_exact_groups(const WeightView& weight) {
    const WeightScales& scales = weight.scales;
    // The first row of each block of rows.
    for (int64_t row = 0; row < weight.rows; row += scales.block_rows - (scales.first_row + row) % scales.block_rows) {
        const float power = row_power(largest_scale(weight, row));
        for (int64_t block = 0; block < blocks_of_row(weight); ++block) {
            if (!splits_exactly(scale_of(weight.scales, row, block), power)) return false;
        }
    }
    return true;
}

}  // namespace

const CompactSource* fp8_source(const WeightView& weight) {
    static const RowsOfFp8 rows;
    static const std::array<GroupsOfFp8, kGroups.size()> groups{GroupsOfFp8(kGroups[0]), GroupsOfFp8(kGroups[1]),
                                                                GroupsOfFp8(kGroups[2]), GroupsOfFp8(kGroups[3])};
    if (blocks_of_row(weight) == 1) return &rows;
    const int64_t size = weight.scales.block_cols;
    if (size % kGroups.front() != 0 || !has_exact_groups(weight)) return nullptr;
    for (size_t i = kGroups.size(); i > 0; --i) {
        if (size % kGroups[i - 1] == 0) return &groups[i - 1];
    }
    return nullptr;
}

}  // namespace nanolith
