// The forward pass written down plainly in float64, to check backends against: no pages, no blocks, no fusion. Keys are
// kept un-rotated, and both query and key are rotated by their absolute positions, so nothing is shared with the way in
// which backends rotate.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace nanolith::testing {

using Row = std::vector<double>;

// Keys (un-rotated) and values of a run of tokens, by layer and token: [num_kv_heads * head_dim].
struct ReferenceCache {
    std::vector<std::vector<Row>> keys, values;
    int32_t length = 0;
};

// A cache as a context sees it: its token 0 stands at position `base`.
struct ReferenceSpan {
    const ReferenceCache* cache = nullptr;
    int32_t base = 0;
};

class ReferenceModel {
  public:
    ReferenceModel(const ModelSpec& spec, const ModelWeights& weights);

    // Computes `tokens` behind what `own` holds, with `before` in view, and appends them to `own`, which begins at
    // position `own_base`. Returns the logits of each token.
    std::vector<Row> extend(ReferenceCache& own, int32_t own_base, const std::vector<ReferenceSpan>& before,
                            const std::vector<int32_t>& tokens) const;

  private:
    struct Layer {
        std::vector<double> attention_norm, q_proj, k_proj, v_proj, q_bias, k_bias, v_bias, q_norm, k_norm, o_proj,
            mlp_norm, gate_proj, up_proj, down_proj;
    };

    struct Turn {
        double cosine, sine;
    };

    [[nodiscard]] Row attend(const Row& queries, int32_t position, int32_t layer,
                             const std::vector<ReferenceSpan>& spans) const;
    void attend_head(const Row& query, const std::vector<Row>& keys, const std::vector<const double*>& values,
                     double* out) const;
    [[nodiscard]] Row rotated(const double* head, int32_t position) const;
    [[nodiscard]] Row step(int32_t token, int32_t position, ReferenceCache& own,
                           const std::vector<ReferenceSpan>& spans) const;

    ModelSpec spec_;
    std::vector<double> embedding_, final_norm_, head_;
    std::vector<Layer> layers_;
    std::vector<Turn> turns_;  // [max_context, head_dim / 2]
};

// A weight as float64, whatever its dtype.
std::vector<double> widen(const WeightView& view);

}  // namespace nanolith::testing
