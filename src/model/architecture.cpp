#include "model/architecture.h"

#include <array>

namespace nanolith {
namespace {

// The names that Llama gave its tensors and that most families after it kept.
constexpr TensorNames kLlamaTensors = {
    .embedding = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .head = "lm_head.weight",
    .attention_norm = "model.layers.{}.input_layernorm.weight",
    .q_proj = "model.layers.{}.self_attn.q_proj.weight",
    .k_proj = "model.layers.{}.self_attn.k_proj.weight",
    .v_proj = "model.layers.{}.self_attn.v_proj.weight",
    .o_proj = "model.layers.{}.self_attn.o_proj.weight",
    .q_bias = "model.layers.{}.self_attn.q_proj.bias",
    .k_bias = "model.layers.{}.self_attn.k_proj.bias",
    .v_bias = "model.layers.{}.self_attn.v_proj.bias",
    .o_bias = "model.layers.{}.self_attn.o_proj.bias",
    .q_norm = "model.layers.{}.self_attn.q_norm.weight",
    .k_norm = "model.layers.{}.self_attn.k_norm.weight",
    .mlp_norm = "model.layers.{}.post_attention_layernorm.weight",
    .gate_proj = "model.layers.{}.mlp.gate_proj.weight",
    .up_proj = "model.layers.{}.mlp.up_proj.weight",
    .down_proj = "model.layers.{}.mlp.down_proj.weight",
};

constexpr std::array kArchitectures = {
    Architecture{
        .name = "LlamaForCausalLM",
        .tensors = kLlamaTensors,
        .qkv_bias = Presence::by_config,
        .qk_norm = false,
        .default_head_dim = 0,
        .default_rope_theta = 10000.0,
        .default_norm_epsilon = 1e-6,
        .default_tied_head = false,
    },
    Architecture{
        .name = "Qwen3ForCausalLM",
        .tensors = kLlamaTensors,
        .qkv_bias = Presence::by_config,
        .qk_norm = true,
        .default_head_dim = 128,
        .default_rope_theta = 10000.0,
        .default_norm_epsilon = 1e-6,
        .default_tied_head = false,
    },
};

}  // namespace

std::span<const Architecture> architectures() {
    return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
    for (const Architecture& architecture : kArchitectures) {
        if (name == architecture.name) return &architecture;
    }
    return nullptr;
}

std::string architecture_names() {
    std::string names;
    for (const Architecture& architecture : kArchitectures) {
        if (!names.empty()) names += ", ";
        names += architecture.name;
    }
    return names;
}

std::string layer_tensor_name(std::string_view pattern, int32_t layer) {
    const size_t hole = pattern.find("{}");
    if (hole == std::string_view::npos) return std::string(pattern);
    std::string name(pattern.substr(0, hole));
    name += std::to_string(layer);
    name += pattern.substr(hole + 2);
    return name;
}

}  // namespace nanolith
