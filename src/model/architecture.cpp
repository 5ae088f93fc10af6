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
    .mlp_norm = "model.layers.{}.post_attention_layernorm.weight",
    .gate_proj = "model.layers.{}.mlp.gate_proj.weight",
    .up_proj = "model.layers.{}.mlp.up_proj.weight",
    .down_proj = "model.layers.{}.mlp.down_proj.weight",
    .gate_bias = "model.layers.{}.mlp.gate_proj.bias",
    .up_bias = "model.layers.{}.mlp.up_proj.bias",
    .down_bias = "model.layers.{}.mlp.down_proj.bias",
};

constexpr TensorNames with_qk_norm(TensorNames names) {
    names.q_norm = "model.layers.{}.self_attn.q_norm.weight";
    names.k_norm = "model.layers.{}.self_attn.k_norm.weight";
    return names;
}

constexpr TensorNames fused(TensorNames names) {
    names.q_proj = names.k_proj = names.v_proj = nullptr;
    names.q_bias = names.k_bias = names.v_bias = nullptr;
    names.qkv_proj = "model.layers.{}.self_attn.qkv_proj.weight";
    names.gate_proj = names.up_proj = nullptr;
    names.gate_up_proj = "model.layers.{}.mlp.gate_up_proj.weight";
    return names;
}

// Gemma: what attention and the MLP add goes through a norm of its own.
constexpr TensorNames with_post_norms(TensorNames names) {
    names.attention_post_norm = "model.layers.{}.post_attention_layernorm.weight";
    names.mlp_norm = "model.layers.{}.pre_feedforward_layernorm.weight";
    names.mlp_post_norm = "model.layers.{}.post_feedforward_layernorm.weight";
    return names;
}

constexpr TensorNames with_qwen_experts(TensorNames names) {
    names.router = "model.layers.{}.mlp.gate.weight";
    names.expert_gate_proj = "model.layers.{}.mlp.experts.{}.gate_proj.weight";
    names.expert_up_proj = "model.layers.{}.mlp.experts.{}.up_proj.weight";
    names.expert_down_proj = "model.layers.{}.mlp.experts.{}.down_proj.weight";
    return names;
}

constexpr TensorNames with_mixtral_experts(TensorNames names) {
    names.gate_proj = names.up_proj = names.down_proj = nullptr;
    names.router = "model.layers.{}.block_sparse_moe.gate.weight";
    names.expert_gate_proj = "model.layers.{}.block_sparse_moe.experts.{}.w1.weight";
    names.expert_up_proj = "model.layers.{}.block_sparse_moe.experts.{}.w3.weight";
    names.expert_down_proj = "model.layers.{}.block_sparse_moe.experts.{}.w2.weight";
    return names;
}

constexpr std::array kArchitectures = {
    Architecture{.name = "LlamaForCausalLM", .family = "Llama 2 to 3.3", .tensors = kLlamaTensors},
    Architecture{
        .name = "MistralForCausalLM",
        .family = "Mistral",
        .tensors = kLlamaTensors,
        .attention_bias = Presence::never,
        .mlp_bias = Presence::never,
        .windows = WindowRule::every_layer,
        .default_num_kv_heads = 8,
        .default_window = 4096,
    },
    Architecture{
        .name = "MixtralForCausalLM",
        .family = "Mixtral",
        .tensors = with_mixtral_experts(kLlamaTensors),
        .attention_bias = Presence::never,
        .mlp_bias = Presence::never,
        .windows = WindowRule::every_layer,
        .experts = ExpertRule::every_layer,
        .default_num_kv_heads = 8,
        .default_rope_theta = 1e6,
        .default_norm_epsilon = 1e-5,
    },
    Architecture{
        .name = "Qwen2ForCausalLM",
        .family = "Qwen 2 and 2.5",
        .tensors = kLlamaTensors,
        .attention_bias = Presence::always,
        .mlp_bias = Presence::never,
        .windows = WindowRule::from_layer,
        .layer_types = true,
        .default_num_kv_heads = 32,
        .default_window = 4096,
    },
    Architecture{
        .name = "Qwen3ForCausalLM",
        .family = "Qwen 3",
        .tensors = with_qk_norm(kLlamaTensors),
        .mlp_bias = Presence::never,
        .windows = WindowRule::from_layer,
        .layer_types = true,
        .default_num_kv_heads = 32,
        .default_head_dim = 128,
        .default_window = 4096,
    },
    Architecture{
        .name = "Qwen3MoeForCausalLM",
        .family = "Qwen 3 MoE",
        .tensors = with_qwen_experts(with_qk_norm(kLlamaTensors)),
        .mlp_bias = Presence::never,
        .windows = WindowRule::switched,
        .experts = ExpertRule::some_layers,
        .default_num_kv_heads = 4,
        .default_window = 4096,
    },
    Architecture{
        .name = "Ernie4_5ForCausalLM",
        .family = "ERNIE 4.5",
        .tensors = kLlamaTensors,
        .attention_bias_field = "use_bias",
        .mlp_bias_field = "use_bias",
        .interleaved_rope = true,
        .default_num_kv_heads = 2,
        .default_head_dim = 128,
        .default_rope_theta = 5e5,
        .default_norm_epsilon = 1e-5,
        .default_tied_head = true,
    },
    Architecture{
        .name = "Gemma2ForCausalLM",
        .family = "Gemma 2",
        .tensors = with_post_norms(kLlamaTensors),
        .mlp_bias = Presence::never,
        .windows = WindowRule::even_layers,
        .layer_types = true,
        .gemma = true,
        .activation_field = "hidden_activation",
        .default_activation = "gelu_pytorch_tanh",
        .default_num_kv_heads = 4,
        .default_head_dim = 256,
        .default_window = 4096,
        .attention_softcap = true,
        .default_attention_softcap = 50,
        .default_logit_softcap = 30,
        .default_tied_head = true,
    },
    Architecture{
        .name = "Gemma3ForCausalLM",
        .family = "Gemma 3 (text)",
        .tensors = with_qk_norm(with_post_norms(kLlamaTensors)),
        .mlp_bias = Presence::never,
        .windows = WindowRule::all_but_every_nth,
        .layer_types = true,
        .gemma = true,
        .activation_field = "hidden_activation",
        .default_activation = "gelu_pytorch_tanh",
        .default_num_kv_heads = 4,
        .default_head_dim = 256,
        .default_rope_theta = 1e6,
        .default_local_rope_theta = 1e4,
        .default_window = 4096,
        .default_tied_head = true,
    },
    Architecture{
        .name = "Phi3ForCausalLM",
        .family = "Phi 3 and 4",
        .tensors = fused(kLlamaTensors),
        .attention_bias = Presence::never,
        .mlp_bias = Presence::never,
        .windows = WindowRule::every_layer,
        .phi_rope = true,
        .default_norm_epsilon = 1e-5,
    },
    Architecture{
        .name = "SmolLM3ForCausalLM",
        .family = "SmolLM 3",
        .tensors = kLlamaTensors,
        .windows = WindowRule::without_rope,
        .layer_types = true,
        .rope_by_layer = true,
        .default_num_kv_heads = 4,
        .default_rope_theta = 2e6,
        .default_tied_head = true,
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

std::string layer_tensor_name(std::string_view pattern, int32_t layer, int32_t expert) {
    std::string name;
    for (const int32_t number : {layer, expert}) {
        const size_t hole = pattern.find("{}");
        if (hole == std::string_view::npos) break;
        name += pattern.substr(0, hole);
        name += std::to_string(number);
        pattern.remove_prefix(hole + 2);
    }
    return name.append(pattern);
}

}  // namespace nanolith
