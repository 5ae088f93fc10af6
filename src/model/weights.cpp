#include "model/weights.h"

#include <utility>
#include <vector>

#include "model/tensor_finder.h"

namespace nanolith {
namespace {

// Finds one layer's weights.
class LayerFinder {
  public:
    LayerFinder(const TensorFinder& finder, const Config& config, int32_t layer)
        : finder_(finder), config_(config), names_(config.tensors), layer_(layer) {}

    Result<LayerWeights> find() {
        const int64_t hidden = config_.spec.hidden_size;
        NL_TRY(vector(names_.attention_norm, hidden, weights_.attention_norm));
        NL_TRY(find_attention());
        NL_TRY(vector(names_.attention_post_norm, hidden, weights_.attention_post_norm));
        NL_TRY(vector(names_.mlp_norm, hidden, weights_.mlp_norm));
        if (config_.has_experts[layer_]) {
            NL_TRY(find_experts());
        } else {
            NL_TRY(find_mlp());
        }
        NL_TRY(vector(names_.mlp_post_norm, hidden, weights_.mlp_post_norm));
        return std::move(weights_);
    }

  private:
    [[nodiscard]] std::string name(const char* pattern, int32_t expert = 0) const {
        return layer_tensor_name(pattern, layer_, expert);
    }
    // A vector that the family has, or nothing.
    Result<void> vector(const char* pattern, int64_t size, WeightView& weight) const {
        return pattern == nullptr ? Result<void>() : finder_.vector(name(pattern), size, weight);
    }
    Result<void> matrix(const char* pattern, int64_t rows, int64_t cols, WeightView& weight) const {
        return finder_.matrix(name(pattern), rows, cols, weight);
    }

    Result<void> find_attention() {
        const ModelSpec& spec = config_.spec;
        const int64_t q_size = int64_t{spec.num_heads} * spec.head_dim;
        const int64_t kv_size = int64_t{spec.num_kv_heads} * spec.head_dim;
        if (names_.qkv_proj != nullptr) {
            NL_TRY(finder_.fused(name(names_.qkv_proj), spec.hidden_size, {q_size, kv_size, kv_size},
                                 {&weights_.q_proj, &weights_.k_proj, &weights_.v_proj}));
        } else {
            NL_TRY(matrix(names_.q_proj, q_size, spec.hidden_size, weights_.q_proj));
            NL_TRY(matrix(names_.k_proj, kv_size, spec.hidden_size, weights_.k_proj));
            NL_TRY(matrix(names_.v_proj, kv_size, spec.hidden_size, weights_.v_proj));
        }
        NL_TRY(matrix(names_.o_proj, spec.hidden_size, q_size, weights_.o_proj));
        if (config_.attention_bias) NL_TRY(find_attention_biases(q_size, kv_size));
        NL_TRY(vector(names_.q_norm, spec.head_dim, weights_.q_norm));
        NL_TRY(vector(names_.k_norm, spec.head_dim, weights_.k_norm));
        for (WeightView* weight : {&weights_.q_proj, &weights_.k_proj, &weights_.q_bias, &weights_.k_bias,
                                   &weights_.q_norm, &weights_.k_norm}) {
            if (weight->present()) weight->order = config_.head_order;
        }
        return {};
    }

    Result<void> find_attention_biases(int64_t q_size, int64_t kv_size) {
        NL_TRY(vector(names_.q_bias, q_size, weights_.q_bias));
        NL_TRY(vector(names_.k_bias, kv_size, weights_.k_bias));
        NL_TRY(vector(names_.v_bias, kv_size, weights_.v_bias));
        if (names_.o_bias == nullptr || !finder_.has(name(names_.o_bias))) return {};
        return vector(names_.o_bias, config_.spec.hidden_size, weights_.o_bias);
    }

    Result<void> find_mlp() {
        const int64_t hidden = config_.spec.hidden_size;
        const int64_t inner = config_.spec.intermediate_size;
        if (names_.gate_up_proj != nullptr) {
            NL_TRY(finder_.fused(name(names_.gate_up_proj), hidden, {inner, inner},
                                 {&weights_.gate_proj, &weights_.up_proj}));
        } else {
            NL_TRY(matrix(names_.gate_proj, inner, hidden, weights_.gate_proj));
            NL_TRY(matrix(names_.up_proj, inner, hidden, weights_.up_proj));
        }
        NL_TRY(matrix(names_.down_proj, hidden, inner, weights_.down_proj));
        if (!config_.mlp_bias) return {};
        NL_TRY(vector(names_.gate_bias, inner, weights_.gate_bias));
        NL_TRY(vector(names_.up_bias, inner, weights_.up_bias));
        return vector(names_.down_bias, hidden, weights_.down_bias);
    }

    Result<void> find_experts() {
        const ExpertSpec& experts = config_.spec.experts;
        const int64_t hidden = config_.spec.hidden_size;
        NL_TRY(matrix(names_.router, experts.count, hidden, weights_.router));
        for (int32_t i = 0; i < experts.count; ++i) {
            ExpertWeights expert;
            NL_TRY(
                finder_.matrix(name(names_.expert_gate_proj, i), experts.intermediate_size, hidden, expert.gate_proj));
            NL_TRY(finder_.matrix(name(names_.expert_up_proj, i), experts.intermediate_size, hidden, expert.up_proj));
            NL_TRY(
                finder_.matrix(name(names_.expert_down_proj, i), hidden, experts.intermediate_size, expert.down_proj));
            weights_.experts.push_back(expert);
        }
        return {};
    }

    const TensorFinder& finder_;
    const Config& config_;
    const TensorNames& names_;
    const int32_t layer_;
    LayerWeights weights_;
};

// Calls visit(weight) for each weight of the layer, present or not.
template <typename Visit>
void for_each_weight(const LayerWeights& layer, const Visit& visit) {
    for (const WeightView* weight :
         {&layer.attention_norm, &layer.q_proj,    &layer.k_proj,    &layer.v_proj,
          &layer.q_bias,         &layer.k_bias,    &layer.v_bias,    &layer.q_norm,
          &layer.k_norm,         &layer.o_proj,    &layer.o_bias,    &layer.attention_post_norm,
          &layer.mlp_norm,       &layer.gate_proj, &layer.up_proj,   &layer.down_proj,
          &layer.gate_bias,      &layer.up_bias,   &layer.down_bias, &layer.mlp_post_norm,
          &layer.router}) {
        visit(*weight);
    }
    for (const ExpertWeights& expert : layer.experts) {
        for (const WeightView* weight : {&expert.gate_proj, &expert.up_proj, &expert.down_proj}) visit(*weight);
    }
}

}  // namespace

Result<ModelWeights> assemble_weights(const Config& config, const TensorMap& tensors, const std::string& where,
                                      PackedMatrices& packed) {
    const TensorFinder finder(tensors, config.quantization, where, packed);
    const TensorNames& names = config.tensors;
    const ModelSpec& spec = config.spec;
    ModelWeights weights;
    NL_TRY(finder.matrix(names.embedding, spec.vocab_size, spec.hidden_size, weights.embedding));
    NL_TRY(finder.vector(names.final_norm, spec.hidden_size, weights.final_norm));
    // As in Transformers, a head of its own in the file counts more than what the config says of it.
    if (config.tied_head && !finder.has(names.head)) {
        weights.head = weights.embedding;
    } else {
        NL_TRY(finder.matrix(names.head, spec.vocab_size, spec.hidden_size, weights.head));
    }
    for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
        NL_ASSIGN(LayerWeights layer_weights, LayerFinder(finder, config, layer).find());
        weights.layers.push_back(std::move(layer_weights));
    }
    return weights;
}

int64_t count_parameters(const ModelWeights& weights) {
    int64_t total = 0;
    const auto count = [&total](const WeightView& weight) {
        if (weight.present()) total += weight.rows * weight.cols;
    };
    count(weights.embedding);
    count(weights.final_norm);
    if (weights.head.data != weights.embedding.data) count(weights.head);
    for (const LayerWeights& layer : weights.layers) for_each_weight(layer, count);
    return total;
}

DType projection_dtype(const ModelWeights& weights) {
    bool has_float32 = false;
    for (const LayerWeights& layer : weights.layers) {
        for_each_weight(layer, [&has_float32](const WeightView& weight) {
            if (weight.present() && weight.rows > 1 && weight.dtype == DType::f32) has_float32 = true;
        });
    }
    const DType first = weights.layers.front().q_proj.dtype;
    return has_float32 ? DType::f32 : first == DType::f8_e4m3 ? DType::bf16 : first;
}

}  // namespace nanolith
