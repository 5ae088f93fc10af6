// What a model family is, as data. To add a family, add an entry to kArchitectures in architecture.cpp; the
// config reader, the weight loader and the forward pass follow it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nanolith {

// Whether the family has a part: in every model, in none, or where the named boolean of config.json says so.
enum class Presence : uint8_t { never, always, by_config };

// Names of a family's tensors in its checkpoints; "{}" stands for the layer's number. Where a family has no such
// part the name is not looked for.
struct TensorNames {
    const char* embedding;
    const char* final_norm;
    const char* head;
    const char* attention_norm;
    const char* q_proj;
    const char* k_proj;
    const char* v_proj;
    const char* o_proj;
    const char* q_bias;
    const char* k_bias;
    const char* v_bias;
    const char* o_bias;  // a model that has this tensor is refused where the QKV biases are in use
    const char* q_norm;
    const char* k_norm;
    const char* mlp_norm;
    const char* gate_proj;
    const char* up_proj;
    const char* down_proj;
};

struct Architecture {
    const char* name;  // in config.json's "architectures"
    TensorNames tensors;
    Presence qkv_bias;  // by_config: "attention_bias"
    bool qk_norm;       // RMSNorm of each query and key head before RoPE
    // What a field that config.json leaves out means.
    int32_t default_head_dim;  // 0: hidden_size / num_attention_heads
    double default_rope_theta;
    double default_norm_epsilon;
    bool default_tied_head;
};

// All families, in the order in which messages name them.
std::span<const Architecture> architectures();
// The family of that name, or null.
const Architecture* find_architecture(std::string_view name);
// "LlamaForCausalLM, Qwen3ForCausalLM", for messages.
std::string architecture_names();
// `pattern` with the layer's number in place of "{}".
std::string layer_tensor_name(std::string_view pattern, int32_t layer);

}  // namespace nanolith
