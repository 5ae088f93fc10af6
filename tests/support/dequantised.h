// A model's weights as they are once an executor has made them compact, in float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/model_weights.h"
#include "backend/read_weight.h"
#include "backend/weight_form.h"
#include "support/compact_blocks.h"

namespace nanolith::testing {

// Rows that were quantised, as a file would have them.
class QuantisedMatrix : public BlocksInMemory {
  public:
    QuantisedMatrix(const WeightView& weight, CodeKind codes)
        : BlocksInMemory(quantised_form(codes), weight.rows, weight.cols) {
        std::vector<float> row(static_cast<size_t>(weight.cols));
        for (int64_t i = 0; i < weight.rows; ++i) {
            read_weight(weight, i * weight.cols, weight.cols, row.data());
            set_scale(i, quantise_row(codes, row.data(), weight.cols, blocks_of(i)));
        }
    }
};

// Rows in groups that have their scale and what ScaleKind::zeros calls their zero point, or e4m3 codes with a scale for
// each group, as quantised checkpoints have them.
class GroupedMatrix : public BlocksInMemory {
  public:
    static constexpr CompactForm kZeros = {
        .codes = CodeKind::bits4, .scales = ScaleKind::zeros, .group = 64, .mins = true};
    static constexpr CompactForm kZerosOf8 = {
        .codes = CodeKind::int8, .scales = ScaleKind::zeros, .group = 128, .mins = true};
    static constexpr CompactForm kE4M3 = {.codes = CodeKind::e4m3, .scales = ScaleKind::half, .group = 128};

    // `form`: one of these. With `shuffled`, the columns are stored in an order that their number alone decides.
    GroupedMatrix(const WeightView& weight, const CompactForm& form, bool shuffled = false)
        : BlocksInMemory(form, weight.rows, weight.cols) {
        std::vector<int32_t> columns(static_cast<size_t>(weight.cols));
        std::iota(columns.begin(), columns.end(), 0);
        Random random(static_cast<uint64_t>(weight.cols));
        for (int32_t last = static_cast<int32_t>(weight.cols) - 1; shuffled && last > 0; --last)
            std::swap(columns[static_cast<size_t>(last)], columns[static_cast<size_t>(random.below(last + 1))]);
        std::vector<float> in_order(static_cast<size_t>(weight.cols));
        std::vector<float> row(static_cast<size_t>(weight.cols));
        for (int64_t i = 0; i < weight.rows; ++i) {
            read_weight(weight, i * weight.cols, weight.cols, in_order.data());
            for (size_t col = 0; col < row.size(); ++col) row[col] = in_order[static_cast<size_t>(columns[col])];
            set_scale(i, 0.5F);
            for (int64_t first = 0; first < weight.cols; first += form.group) {
                const int64_t count = std::min<int64_t>(form.group, weight.cols - first);
                CompactBlock& block = blocks_of(i)[first / kCompactBlock];
                quantise(row.data() + first, count, first % kCompactBlock, block);
            }
        }
        if (shuffled) set_columns(std::move(columns));
    }

  private:
    void quantise(const float* weights, int64_t count, int64_t first, CompactBlock& to) const {
        const auto [low, high] = std::minmax_element(weights, weights + count);
        const bool zeros = form().scales == ScaleKind::zeros;
        const float most = std::max(std::fabs(*low), std::fabs(*high));
        const int64_t group = first / form().group;
        const bool bits4 = form().codes == CodeKind::bits4;
        const float least = bits4 ? 0 : -128;
        to.scales[group] = to_half(2 * (zeros ? (*high - *low) / (bits4 ? 15 : 255) : most / 448));
        const float scale = to_float(to.scales[group]) / 2;
        const float zero = zeros ? std::nearbyint(least - *low / scale) : 0;
        to.min_factors[group] = static_cast<int8_t>(zero);
        for (int64_t i = 0; i < count; ++i) {
            const float steps = weights[i] / scale;
            const float code = std::clamp(std::nearbyint(steps) + zero, least, bits4 ? 15.0F : 127.0F);
            to.codes[first + i] = zeros ? static_cast<int8_t>(code) : static_cast<int8_t>(to_float8_e4m3(steps).bits);
        }
    }
};

// Owns what its weights point to, beside what the original's vectors do.
class Dequantised {
  public:
    using Make = std::function<std::unique_ptr<BlocksInMemory>(const WeightView&)>;

    ModelWeights weights;  // float32
    ModelWeights compact;  // the same, as a file of compact weights would give them

    Dequantised(const ModelWeights& original, CodeKind codes, CodeKind of_tables)
        : Dequantised(original, quantise_to(codes), quantise_to(of_tables)) {}
    Dequantised(const ModelWeights& original, const Make& make, const Make& make_table)
        : weights(original), compact(original) {
        change(weights.embedding, compact.embedding, make_table);
        if (original.head.data == original.embedding.data) {
            weights.head = weights.embedding;
            compact.head = compact.embedding;
        } else {
            change(weights.head, compact.head, make_table);
        }
        for (size_t i = 0; i < weights.layers.size(); ++i) {
            LayerWeights& wide = weights.layers[i];
            LayerWeights& small = compact.layers[i];
            for (WeightView LayerWeights::*weight :
                 {&LayerWeights::q_proj, &LayerWeights::k_proj, &LayerWeights::v_proj, &LayerWeights::o_proj,
                  &LayerWeights::gate_proj, &LayerWeights::up_proj, &LayerWeights::down_proj})
                change(wide.*weight, small.*weight, make);
            for (size_t e = 0; e < wide.experts.size(); ++e) {
                for (WeightView ExpertWeights::*weight :
                     {&ExpertWeights::gate_proj, &ExpertWeights::up_proj, &ExpertWeights::down_proj})
                    change(wide.experts[e].*weight, small.experts[e].*weight, make);
            }
        }
    }
    Dequantised(const Dequantised&) = delete;
    Dequantised& operator=(const Dequantised&) = delete;

  private:
    static Make quantise_to(CodeKind codes) {
        return [codes](const WeightView& weight) { return std::make_unique<QuantisedMatrix>(weight, codes); };
    }
    void change(WeightView& wide, WeightView& small, const Make& make) {
        if (!wide.present()) return;
        // Weights that are compact in their file stay as they are.
        if (wide.compact == nullptr) small = matrices_.emplace_back(make(wide))->view();
        std::vector<float>& values = values_.emplace_back(static_cast<size_t>(wide.rows * wide.cols));
        read_weight(small, 0, wide.rows * wide.cols, values.data());
        const WeightView view{DType::f32, wide.rows, wide.cols, reinterpret_cast<const std::byte*>(values.data())};
        wide = view;
    }

    std::deque<std::unique_ptr<BlocksInMemory>> matrices_;
    std::deque<std::vector<float>> values_;
};

// The codes of a WeightForm that quantises.
inline CodeKind codes_of(WeightForm form) {
    return form == WeightForm::int4 ? CodeKind::bits4 : form == WeightForm::fp8 ? CodeKind::e4m3 : CodeKind::int8;
}

}  // namespace nanolith::testing
