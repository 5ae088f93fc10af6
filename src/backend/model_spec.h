// A decoder-only transformer as numbers: what a model of any family is for a device, but for its weights.
#pragma once

#include <cstdint>
#include <vector>

namespace nanolith {

// Rotary position embedding (Su et al., RoFormer), scaling included: pair i (elements i and i + head_dim/2) of a head
// is rotated by position * frequencies[i] and multiplied by magnitudes[i]. A frequency of 0 does not rotate the pair.
struct RopeSpec {
    std::vector<float> frequencies;  // [head_dim / 2]
    std::vector<float> magnitudes;   // [head_dim / 2], or empty: all 1
};

// In what the attention of one layer differs from that of others.
struct LayerSpec {
    int32_t rope = 0;    // index in ModelSpec::ropes
    int32_t window = 0;  // a query at position p attends to positions above p - window; 0: to all
};

enum class Activation : uint8_t {
    silu,      // x / (1 + e^-x)
    gelu_tanh  // Hendrycks and Gimpel, Gaussian Error Linear Units, with tanh
};

// A mixture of experts in place of a layer's MLP (Shazeer et al., Outrageously Large Neural Networks): for each row
// the `top_k` experts with the highest softmax of the router's logits; their outputs are added, weighted by it.
struct ExpertSpec {
    int32_t count = 0;  // 0: no layer has experts
    int32_t top_k = 0;
    int32_t intermediate_size = 0;
    bool normalized = false;  // the weights of the chosen experts are divided by their sum
};

// A decoder-only transformer as numbers. Which optional parts a layer has (biases, QK-norm, post-norms, experts)
// follows from which of its weights are present (model_weights.h).
struct ModelSpec {
    int32_t num_layers = 0;
    int32_t hidden_size = 0;
    int32_t intermediate_size = 0;  // of layers without experts
    int32_t num_heads = 0;          // query heads; a multiple of num_kv_heads
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;  // even
    int32_t vocab_size = 0;
    int32_t max_context = 0;  // positions are below this
    float norm_epsilon = 1e-6F;
    float norm_offset = 0;        // norms multiply by their weight plus this
    float attention_scale = 0;    // a score is q.k times this
    float attention_softcap = 0;  // a score then becomes cap * tanh(score / cap); 0: it stays
    float logit_softcap = 0;      // the same for logits
    float embedding_scale = 1;    // embeddings are multiplied by this
    Activation activation = Activation::silu;
    ExpertSpec experts;
    std::vector<RopeSpec> ropes;
    std::vector<LayerSpec> layers;  // [num_layers]
};

}  // namespace nanolith
