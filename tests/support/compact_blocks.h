// Compact weights of random codes and scales, and what their values are by definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/weight_view.h"
#include "support/random_model.h"

namespace nanolith::testing {

// Forms of weights as files have them, by the names of GGUF's types, and forms of other files and kinds.
struct NamedForm {
    const char* name;
    CompactForm form;
};
inline const NamedForm kCompactForms[] = {
    {"Q8_0", {CodeKind::int8, ScaleKind::half, 32, 0, false}},
    {"Q4_0", {CodeKind::bits4, ScaleKind::half, 32, 8, false}},
    {"Q4_1", {CodeKind::bits4, ScaleKind::half, 32, 0, true}},
    {"Q5_0", {CodeKind::int8, ScaleKind::half, 32, 16, false}},
    {"Q5_1", {CodeKind::int8, ScaleKind::half, 32, 0, true}},
    {"Q2_K", {CodeKind::bits4, ScaleKind::two, 16, 0, true}},
    {"Q3_K", {CodeKind::bits4, ScaleKind::two, 16, 4, false}},
    {"Q4_K", {CodeKind::bits4, ScaleKind::two, 32, 0, true}},
    {"Q5_K", {CodeKind::int8, ScaleKind::two, 32, 0, true}},
    {"Q6_K", {CodeKind::int8, ScaleKind::two, 16, 0, false}},
    {"groups of 128", {CodeKind::bits4, ScaleKind::half, 128, 0, true}},
    {"4 bits with zero points", {CodeKind::bits4, ScaleKind::zeros, 32, 0, true}},
    {"8 bits with zero points", {CodeKind::int8, ScaleKind::zeros, 128, 0, true}},
    {"e4m3 in groups of 128", {CodeKind::e4m3, ScaleKind::half, 128, 0, false}},
    {"rows of int8", {CodeKind::int8, ScaleKind::none, 256, 0, false}},
    {"rows of e4m3", {CodeKind::e4m3, ScaleKind::none, 256, 0, false}},
};

// A matrix of blocks in memory, as a file would have them.
class BlocksInMemory : public CompactSource {
  public:
    BlocksInMemory(const CompactForm& form, int64_t rows, int64_t cols)
        : form_(form),
          cols_(cols),
          blocks_(static_cast<size_t>(rows * compact_blocks(cols))),
          scales_(static_cast<size_t>(rows)) {}

    [[nodiscard]] CompactForm form() const override { return form_; }
    void read_blocks(const WeightView&, int64_t row, int64_t first, int64_t count,
                     CompactBlock* to) const noexcept override {
        std::copy_n(blocks_of(row) + first, count, to);
    }
    [[nodiscard]] float row_scale(const WeightView&, int64_t row) const noexcept override {
        return scales_[static_cast<size_t>(row)];
    }
    [[nodiscard]] WeightView view() const {
        WeightView view;
        view.dtype = DType::bf16;
        view.rows = static_cast<int64_t>(scales_.size());
        view.cols = cols_;
        view.data = reinterpret_cast<const std::byte*>(blocks_.data());
        view.compact = this;
        view.columns = columns_;
        return view;
    }

    [[nodiscard]] const CompactBlock* blocks_of(int64_t row) const {
        return blocks_.data() + row * compact_blocks(cols_);
    }
    CompactBlock* blocks_of(int64_t row) { return blocks_.data() + row * compact_blocks(cols_); }
    void set_scale(int64_t row, float scale) { scales_[static_cast<size_t>(row)] = scale; }

  protected:
    void set_columns(std::vector<int32_t> columns) { columns_ = std::move(columns); }

  private:
    CompactForm form_;
    int64_t cols_;
    std::vector<CompactBlock> blocks_;
    std::vector<float> scales_;
    std::vector<int32_t> columns_;  // WeightView::columns
};

// Random blocks: scales of every size that a form can have, from 2^-24 to thousands, zeros among them.
class RandomCompact : public BlocksInMemory {
  public:
    RandomCompact(const CompactForm& form, int64_t rows, int64_t cols, Random& random)
        : BlocksInMemory(form, rows, cols) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t block = 0; block < compact_blocks(cols); ++block) fill(blocks_of(row)[block], random);
            set_scale(row, std::ldexp(random.centered(), random.below(40) - 20));
        }
    }

    // Of weight (row, k): its scale and code and minimum by definition, in double.
    struct Parts {
        double product = 0;
        double min = 0;
        double zero = 0;  // the scale times the form's zero: what a stored code of 0 is worth, negated
    };
    [[nodiscard]] Parts parts(int64_t row, int64_t k) const {
        const CompactForm form = this->form();
        const CompactBlock& block = blocks_of(row)[k / kCompactBlock];
        const int64_t group = k % kCompactBlock / form.group;
        const int8_t stored = block.codes[k % kCompactBlock];
        const double code = form.codes == CodeKind::e4m3 ? to_float(Float8E4M3{static_cast<uint8_t>(stored)})
                                                         : static_cast<double>(stored) - static_cast<double>(form.zero);
        double scale = 1;
        double min = 0;
        if (form.scales == ScaleKind::half) {
            scale = to_float(block.scales[group]);
            min = form.mins ? to_float(block.mins[group]) : 0;
        } else if (form.scales == ScaleKind::zeros) {
            scale = to_float(block.scales[group]);
            min = scale * block.min_factors[group];
        } else if (form.scales == ScaleKind::two) {
            scale = static_cast<double>(to_float(block.scale)) * block.factors[group];
            min = form.mins ? static_cast<double>(to_float(block.min)) * block.min_factors[group] : 0;
        }
        const double by_row = row_scale({}, row);
        return {by_row * scale * code, by_row * min, by_row * scale * static_cast<double>(form.zero)};
    }

  private:
    static Half scale_of(Random& random) {
        if (random.below(16) == 0) return {};
        return to_half(std::ldexp(random.centered(), random.below(36) - 24));
    }
    void fill(CompactBlock& block, Random& random) const {
        const CompactForm form = this->form();
        for (int8_t& code : block.codes) {
            code = static_cast<int8_t>(form.codes == CodeKind::bits4 ? random.below(16) : random.below(256) - 128);
            if (form.codes == CodeKind::e4m3 && (code & 0x7F) == 0x7F) code = 0;
        }
        for (Half& scale : block.scales) scale = scale_of(random);
        for (Half& min : block.mins) min = scale_of(random);
        block.scale = scale_of(random);
        block.min = scale_of(random);
        for (int8_t& factor : block.factors) factor = static_cast<int8_t>(random.below(256) - 128);
        for (int8_t& factor : block.min_factors) factor = static_cast<int8_t>(random.below(256) - 128);
    }
};

}  // namespace nanolith::testing
