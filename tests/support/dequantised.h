// A model's weights as they are once an executor has made them compact, in float32.
#pragma once

#include <deque>
#include <map>
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

// Owns what its weights point to, beside what the original's vectors do.
class Dequantised {
  public:
    ModelWeights weights;  // float32
    ModelWeights compact;  // the same, as a file of compact weights would give them

    Dequantised(const ModelWeights& original, CodeKind codes, CodeKind of_tables)
        : weights(original), compact(original), codes_(codes) {
        change(&ModelWeights::embedding, of_tables);
        if (original.head.data == original.embedding.data) {
            weights.head = weights.embedding;
            compact.head = compact.embedding;
        } else {
            change(&ModelWeights::head, of_tables);
        }
        for (size_t i = 0; i < weights.layers.size(); ++i) {
            LayerWeights& wide = weights.layers[i];
            LayerWeights& small = compact.layers[i];
            for (WeightView LayerWeights::*weight :
                 {&LayerWeights::q_proj, &LayerWeights::k_proj, &LayerWeights::v_proj, &LayerWeights::o_proj,
                  &LayerWeights::gate_proj, &LayerWeights::up_proj, &LayerWeights::down_proj})
                change(wide.*weight, small.*weight, codes_);
            for (size_t e = 0; e < wide.experts.size(); ++e) {
                for (WeightView ExpertWeights::*weight :
                     {&ExpertWeights::gate_proj, &ExpertWeights::up_proj, &ExpertWeights::down_proj})
                    change(wide.experts[e].*weight, small.experts[e].*weight, codes_);
            }
        }
    }
    Dequantised(const Dequantised&) = delete;
    Dequantised& operator=(const Dequantised&) = delete;

  private:
    void change(WeightView ModelWeights::*weight, CodeKind codes) { change(weights.*weight, compact.*weight, codes); }
    void change(WeightView& wide, WeightView& small, CodeKind codes) {
        if (!wide.present()) return;
        const QuantisedMatrix& matrix = matrices_.emplace_back(wide, codes);
        std::vector<float>& values = values_.emplace_back(static_cast<size_t>(wide.rows * wide.cols));
        read_weight(matrix.view(), 0, wide.rows * wide.cols, values.data());
        small = matrix.view();
        const WeightView view{DType::f32, wide.rows, wide.cols, reinterpret_cast<const std::byte*>(values.data())};
        wide = view;
    }

    CodeKind codes_;
    std::deque<QuantisedMatrix> matrices_;
    std::deque<std::vector<float>> values_;
};

// The codes of a WeightForm that quantises.
inline CodeKind codes_of(WeightForm form) {
    return form == WeightForm::int4 ? CodeKind::bits4 : form == WeightForm::fp8 ? CodeKind::e4m3 : CodeKind::int8;
}

}  // namespace nanolith::testing
