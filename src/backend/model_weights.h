// All weights of a model, as views of host memory.
#pragma once

#include <vector>

#include "backend/weight_view.h"

namespace nanolith {

// The projections of one expert: gate and up are [intermediate, hidden], down is [hidden, intermediate].
struct ExpertWeights {
    WeightView gate_proj, up_proj, down_proj;
};

// Projections are [out, in] as checkpoints store them: y = W x. All layers have the same optional weights; but some
// layers may have a router and experts in place of gate_proj, up_proj and down_proj.
struct LayerWeights {
    WeightView attention_norm;          // [1, hidden]
    WeightView q_proj, k_proj, v_proj;  // [heads * head_dim, hidden]
    WeightView q_bias, k_bias, v_bias;  // optional, [1, heads * head_dim]
    WeightView q_norm, k_norm;          // optional, [1, head_dim]: RMSNorm of each head before RoPE
    WeightView o_proj;                  // [hidden, num_heads * head_dim]
    WeightView o_bias;                  // optional, [1, hidden]
    WeightView attention_post_norm;     // optional, [1, hidden]: RMSNorm of what attention adds to the residual stream
    WeightView mlp_norm;                // [1, hidden]
    WeightView gate_proj, up_proj;      // [intermediate, hidden]
    WeightView down_proj;               // [hidden, intermediate]
    WeightView gate_bias, up_bias;      // optional, [1, intermediate]
    WeightView down_bias;               // optional, [1, hidden]
    WeightView mlp_post_norm;           // optional, [1, hidden]: RMSNorm of what the MLP adds
    WeightView router;                  // [experts, hidden]; present where the layer has experts
    std::vector<ExpertWeights> experts;
};

struct ModelWeights {
    WeightView embedding;   // [vocab, hidden]
    WeightView final_norm;  // [1, hidden]
    WeightView head;        // [vocab, hidden]; a tied head has the same data pointer as the embedding
    std::vector<LayerWeights> layers;
};

}  // namespace nanolith
