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

// Which layers have the window of "sliding_window" where config.json has no "layer_types".
enum class WindowRule : uint8_t {
    never,             // the family does not read it
    every_layer,       // wherever it is set
    switched,          // every layer, where "use_sliding_window" is true
    from_layer,        // layers from "max_window_layers" on, where "use_sliding_window" is true
    without_rope,      // layers without RoPE, where "use_sliding_window" is true
    even_layers,       // 0, 2, 4, ...
    all_but_every_nth  // all but each "sliding_window_pattern"-th
};

// Which layers have experts, and how those are chosen.
enum class ExpertRule : uint8_t {
    never,
    every_layer,  // "num_local_experts" of "intermediate_size"; shares of the chosen add up to 1 (Mixtral)
    some_layers   // "num_experts" of "moe_intermediate_size" in every "decoder_sparse_step"-th layer that is not in
                  // "mlp_only_layers"; shares as "norm_topk_prob" says (Qwen3-MoE)
};

// Names of a family's tensors in its checkpoints; "{}" stands for the layer's number, in names of experts a second one
// for the expert's. Null: the family has no such tensor.
struct TensorNames {
    const char* embedding = nullptr;
    const char* final_norm = nullptr;
    const char* head = nullptr;
    const char* attention_norm = nullptr;
    const char* q_proj = nullptr;
    const char* k_proj = nullptr;
    const char* v_proj = nullptr;
    const char* qkv_proj = nullptr;  // in place of the three: one matrix of all their rows
    const char* o_proj = nullptr;
    const char* q_bias = nullptr;
    const char* k_bias = nullptr;
    const char* v_bias = nullptr;
    const char* o_bias = nullptr;  // may be missing where the three are there
    const char* q_norm = nullptr;
    const char* k_norm = nullptr;
    const char* attention_post_norm = nullptr;
    const char* mlp_norm = nullptr;
    const char* gate_proj = nullptr;
    const char* up_proj = nullptr;
    const char* gate_up_proj = nullptr;  // in place of the two: one matrix of all their rows
    const char* down_proj = nullptr;
    const char* gate_bias = nullptr;
    const char* up_bias = nullptr;
    const char* down_bias = nullptr;
    const char* mlp_post_norm = nullptr;
    const char* router = nullptr;
    const char* expert_gate_proj = nullptr;
    const char* expert_up_proj = nullptr;
    const char* expert_down_proj = nullptr;
};

struct Architecture {
    const char* name;    // in config.json's "architectures"
    const char* family;  // as people call it
    TensorNames tensors;
    Presence attention_bias = Presence::by_config;
    const char* attention_bias_field = "attention_bias";
    Presence mlp_bias = Presence::by_config;
    const char* mlp_bias_field = "mlp_bias";
    WindowRule windows = WindowRule::never;
    ExpertRule experts = ExpertRule::never;
    bool interleaved_rope = false;  // RoPE's pairs are neighbours, not halves
    bool phi_rope = false;          // "partial_rotary_factor" is read; elsewhere it is ignored, or refused with scaling
    bool layer_types = false;       // "layer_types" is read
    bool rope_by_layer = false;     // "no_rope_layers", else each "no_rope_layer_interval"-th layer has no RoPE
    bool gemma = false;             // norms multiply by 1 + weight, embeddings are scaled, scores scale with
                                    // "query_pre_attn_scalar" and may be capped, as may logits
    const char* activation_field = "hidden_act";
    // What a field that config.json leaves out means.
    const char* default_activation = "silu";
    int32_t default_num_kv_heads = 0;  // 0: num_attention_heads
    int32_t default_head_dim = 0;      // 0: hidden_size / num_attention_heads
    double default_rope_theta = 10000.0;
    double default_local_rope_theta = 0;  // of layers with a window; 0: that of all others
    double default_norm_epsilon = 1e-6;
    int32_t default_window = 0;
    bool attention_softcap = false;  // "attn_logit_softcapping" is read
    double default_attention_softcap = 0;
    double default_logit_softcap = 0;
    bool default_tied_head = false;
};

// All families, in the order in which messages name them.
std::span<const Architecture> architectures();
// The family of that name, or null.
const Architecture* find_architecture(std::string_view name);
// "LlamaForCausalLM, MistralForCausalLM, ...", for messages.
std::string architecture_names();
// `pattern` with the layer's number in place of the first "{}", and the expert's in place of the second.
std::string layer_tensor_name(std::string_view pattern, int32_t layer, int32_t expert = 0);

}  // namespace nanolith
