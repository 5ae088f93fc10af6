#include "executor/supported.h"

#include <algorithm>

#include "attention/attention.h"

namespace nanolith::cuda {

namespace {

// What a model may have that no kernel computes, in a user's words.
struct Feature {
    const char* name;
    bool in_use;
};

Result<void> refuse_first(std::initializer_list<Feature> features) {
    for (const Feature& feature : features) {
        if (feature.in_use) {
            return fail(NL_ERROR_UNSUPPORTED, "the model has ", feature.name,
                        ", which the CUDA backend does not compute; device \"cpu\" does");
        }
    }
    return {};
}

}  // namespace

std::optional<float> magnitude_of(const RopeSpec& rope) {
    if (rope.magnitudes.empty()) return 1.0F;
    const float first = rope.magnitudes.front();
    const bool same = std::ranges::all_of(rope.magnitudes, [first](float other) { return other == first; });
    return same ? std::optional(first) : std::nullopt;
}

Result<void> check_supported(const ModelSpec& spec, const ModelWeights& weights) {
    if (spec.head_dim > kMaxHeadDim || spec.head_dim % 8 != 0) {
        return fail(NL_ERROR_UNSUPPORTED, "head_dim is ", spec.head_dim,
                    ", the CUDA backend takes multiples of 8 up to ", kMaxHeadDim);
    }
    const auto any_layer = [&weights](auto part) {
        return std::ranges::any_of(weights.layers, [part](const LayerWeights& layer) { return part(layer); });
    };
    return refuse_first({
        {"experts", spec.experts.count > 0},
        {"norms of 1 + weight", spec.norm_offset != 0},
        {"scaled embeddings", spec.embedding_scale != 1},
        {"the activation gelu", spec.activation != Activation::silu},
        {"capped logits", spec.logit_softcap != 0},
        {"norms behind attention or MLP",
         any_layer([](const auto& l) { return l.attention_post_norm.present() || l.mlp_post_norm.present(); })},
        {"a bias of the output projection", any_layer([](const auto& l) { return l.o_bias.present(); })},
        {"biases of the MLP", any_layer([](const auto& l) { return l.gate_bias.present() || l.down_bias.present(); })},
        {"a rotation that stretches a part of each head",
         std::ranges::any_of(spec.ropes, [](const RopeSpec& rope) { return !magnitude_of(rope); })},
    });
}

}  // namespace nanolith::cuda
