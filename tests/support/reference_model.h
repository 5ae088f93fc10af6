// The forward pass written down plainly in float64, to check backends against: no pages, no blocks, no fusion, experts
// one row at a time. Keys are kept un-rotated, and both query and key are rotated by their absolute positions, so
// nothing is shared with the way in which backends rotate.
#pragma once

#include <vector>

#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/weight_view.h"

namespace nanolith::testing {

using Row = std::vector<double>;

// Keys (un-rotated, save with float8 pages) and values of a run of tokens, by layer and token: [num_kv_heads *
// head_dim].
struct ReferenceCache {
    std::vector<std::vector<Row>> keys, values;
    int32_t length = 0;
};

// A cache as a context uses it: its token 0 has position `base`.
struct ReferenceSpan {
    const ReferenceCache* cache = nullptr;
    int32_t base = 0;
};

class ReferenceModel {
  public:
    // `float8_pages`: keys, rotated for their places in the cache, and values are rounded to e4m3. Ropes without
    // magnitudes alone then.
    ReferenceModel(const ModelSpec& spec, const ModelWeights& weights, bool float8_pages = false);

    // Computes `tokens` after those that `own` holds, with `before` in view, and appends them to `own`, which begins at
    // position `own_base`. Returns the logits of each token.
    std::vector<Row> extend(ReferenceCache& own, int32_t own_base, const std::vector<ReferenceSpan>& before,
                            const std::vector<int32_t>& tokens);

    // Of the tokens of the latest extend(): the last layer's output after the final norm, [hidden_size].
    [[nodiscard]] const std::vector<Row>& states() const { return states_; }

    // From now on extend() adds to watched()[span][token] the softmax weights that all query heads of all its rows give
    // the token in these layers; spans are numbered as extend() has them, its own last.
    void watch(std::vector<int32_t> layers) { watched_layers_ = std::move(layers); }
    [[nodiscard]] const std::vector<std::vector<double>>& watched() const { return watched_; }

    // The least by which the logit of a chosen expert was above that of one left out, over the latest extend();
    // infinite where there was no choice. A backend that rounds can choose otherwise where it is small.
    [[nodiscard]] double smallest_margin() const { return smallest_margin_; }

  private:
    // Of a layer, or of one expert.
    struct Mlp {
        std::vector<double> gate_proj, up_proj, down_proj, gate_bias, up_bias, down_bias;
    };
    struct Layer {
        std::vector<double> attention_norm, q_proj, k_proj, v_proj, q_bias, k_bias, v_bias, q_norm, k_norm, o_proj,
            o_bias, attention_post_norm, mlp_norm, mlp_post_norm, router;
        Mlp mlp;
        std::vector<Mlp> experts;
    };

    struct Turn {
        double cosine, sine;
    };

    [[nodiscard]] Row attend(const Row& queries, int32_t position, int32_t layer,
                             const std::vector<ReferenceSpan>& spans);
    // `add_to` is null, or where each key's weight is added.
    void attend_head(const Row& query, const std::vector<Row>& keys, const std::vector<const double*>& values,
                     double* out, const std::vector<double*>* add_to) const;
    [[nodiscard]] Row rotated(const double* head, int32_t position, int32_t layer) const;
    [[nodiscard]] Row norm_of(const WeightView& view) const;
    [[nodiscard]] Row apply(const Mlp& mlp, const Row& x) const;
    [[nodiscard]] Row mix_experts(const Layer& layer, const Row& x);
    [[nodiscard]] Row step(int32_t token, int32_t position, ReferenceCache& own,
                           const std::vector<ReferenceSpan>& spans);

    // Rounds the token's keys [num_kv_heads * head_dim], which stand at `position` of their cache, and values.
    void round_to_float8(Row& keys, Row& values, int32_t position, int32_t layer) const;

    ModelSpec spec_;
    bool float8_pages_;
    std::vector<double> embedding_, final_norm_, head_;
    std::vector<Layer> layers_;
    std::vector<std::vector<Turn>> turns_;  // of each rope: [max_context, head_dim / 2]
    double smallest_margin_ = 0;
    std::vector<Row> states_;
    std::vector<int32_t> watched_layers_;
    std::vector<std::vector<double>> watched_;
};

// A weight as float64, element by element as WeightView defines them: whatever its dtype, in its order, with its
// scales.
std::vector<double> widen(const WeightView& view);

}  // namespace nanolith::testing
