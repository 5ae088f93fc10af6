// Compact weights of random codes and scales, and what their values are by definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/weight_view.h"
#include "support/random_model.h"

namespace nanolith::testing {

// The forms that sources have, by the names of GGUF's types, and those that we quantise to.
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
    {"rows of int8", {CodeKind::int8, ScaleKind::none, 256, 0, false}},
    {"rows of e4m3", {CodeKind::e4m3, ScaleKind::none, 256, 0, false}},
};

// A matrix of random blocks: scales of every size that a form can have, from 2^-24 to thousands, zeros among them.
class RandomCompact : public CompactSource {
  public:
    RandomCompact(const CompactForm& form, int64_t rows, int64_t cols, Random& random)
        : form_(form), cols_(cols), scales_(static_cast<size_t>(rows)) {
        blocks_.resize(static_cast<size_t>(rows * compact_blocks(cols)));
        for (CompactBlock& block : blocks_) fill(block, random);
        for (float& scale : scales_) scale = std::ldexp(random.centered(), random.below(40) - 20);
    }

    [[nodiscard]] CompactForm form() const override { return form_; }
    void read_block(const WeightView&, int64_t row, int64_t block, CompactBlock& to) const noexcept override {
        to = blocks_[static_cast<size_t>(row * compact_blocks(cols_) + block)];
    }
    [[nodiscard]] float row_scale(const WeightView&, int64_t row) const noexcept override {
        return scales_[static_cast<size_t>(row)];
    }
    CompactBlock& block(int64_t row, int64_t block) {
        return blocks_[static_cast<size_t>(row * compact_blocks(cols_) + block)];
    }

    [[nodiscard]] WeightView view() const {
        WeightView view;
        view.dtype = DType::bf16;
        view.rows = static_cast<int64_t>(scales_.size());
        view.cols = cols_;
        view.data = reinterpret_cast<const std::byte*>(blocks_.data());
        view.compact = this;
        return view;
    }

    // Of weight (row, k): its scale and code and minimum by definition, in double.
    struct Parts {
        double product = 0;
        double min = 0;
    };
    [[nodiscard]] Parts parts(int64_t row, int64_t k) const {
        const CompactBlock& block = blocks_[static_cast<size_t>(row * compact_blocks(cols_) + k / kCompactBlock)];
        const int64_t group = k % kCompactBlock / form_.group;
        const int8_t stored = block.codes[k % kCompactBlock];
        const double code = form_.codes == CodeKind::e4m3
                                ? to_float(Float8E4M3{static_cast<uint8_t>(stored)})
                                : static_cast<double>(stored) - static_cast<double>(form_.zero);
        double scale = 1;
        double min = 0;
        if (form_.scales == ScaleKind::half) {
            scale = to_float(block.scales[group]);
            min = form_.mins ? to_float(block.mins[group]) : 0;
        } else if (form_.scales == ScaleKind::two) {
            scale = static_cast<double>(to_float(block.scale)) * block.factors[group];
            min = form_.mins ? static_cast<double>(to_float(block.min)) * block.min_factors[group] : 0;
        }
        const double by_row = scales_[static_cast<size_t>(row)];
        return {by_row * scale * code, by_row * min};
    }

  private:
    static Half scale_of(Random& random) {
        if (random.below(16) == 0) return {};
        return to_half(std::ldexp(random.centered(), random.below(36) - 24));
    }
    void fill(CompactBlock& block, Random& random) const {
        for (int8_t& code : block.codes) {
            code = static_cast<int8_t>(form_.codes == CodeKind::bits4 ? random.below(16) : random.below(256) - 128);
            if (form_.codes == CodeKind::e4m3 && (code & 0x7F) == 0x7F) code = 0;
        }
        for (Half& scale : block.scales) scale = scale_of(random);
        for (Half& min : block.mins) min = scale_of(random);
        block.scale = scale_of(random);
        block.min = scale_of(random);
        for (int8_t& factor : block.factors) factor = static_cast<int8_t>(random.below(256) - 128);
        for (int8_t& factor : block.min_factors) factor = static_cast<int8_t>(random.below(256) - 128);
    }

    CompactForm form_;
    int64_t cols_;
    std::vector<CompactBlock> blocks_;
    std::vector<float> scales_;
};

}  // namespace nanolith::testing
