#include "model/gguf/gguf_names.h"

#include <array>

namespace nanolith {
namespace {

struct Name {
    const char* TensorNames::*member;
    const char* name;
};
constexpr std::array kNames = {
    Name{&TensorNames::embedding, kGgufEmbedding},
    Name{&TensorNames::final_norm, "output_norm.weight"},
    Name{&TensorNames::head, kGgufHead},
    Name{&TensorNames::attention_norm, "blk.{}.attn_norm.weight"},
    Name{&TensorNames::q_proj, "blk.{}.attn_q.weight"},
    Name{&TensorNames::k_proj, "blk.{}.attn_k.weight"},
    Name{&TensorNames::v_proj, "blk.{}.attn_v.weight"},
    Name{&TensorNames::qkv_proj, "blk.{}.attn_qkv.weight"},
    Name{&TensorNames::o_proj, "blk.{}.attn_output.weight"},
    Name{&TensorNames::q_bias, "blk.{}.attn_q.bias"},
    Name{&TensorNames::k_bias, "blk.{}.attn_k.bias"},
    Name{&TensorNames::v_bias, "blk.{}.attn_v.bias"},
    Name{&TensorNames::o_bias, "blk.{}.attn_output.bias"},
    Name{&TensorNames::q_norm, "blk.{}.attn_q_norm.weight"},
    Name{&TensorNames::k_norm, "blk.{}.attn_k_norm.weight"},
    Name{&TensorNames::attention_post_norm, "blk.{}.post_attention_norm.weight"},
    Name{&TensorNames::mlp_norm, "blk.{}.ffn_norm.weight"},
    Name{&TensorNames::gate_proj, "blk.{}.ffn_gate.weight"},
    Name{&TensorNames::up_proj, "blk.{}.ffn_up.weight"},
    Name{&TensorNames::gate_up_proj, "blk.{}.ffn_up.weight"},
    Name{&TensorNames::down_proj, "blk.{}.ffn_down.weight"},
    Name{&TensorNames::gate_bias, "blk.{}.ffn_gate.bias"},
    Name{&TensorNames::up_bias, "blk.{}.ffn_up.bias"},
    Name{&TensorNames::down_bias, "blk.{}.ffn_down.bias"},
    Name{&TensorNames::mlp_post_norm, "blk.{}.post_ffw_norm.weight"},
    Name{&TensorNames::router, "blk.{}.ffn_gate_inp.weight"},
    Name{&TensorNames::expert_gate_proj, "blk.{}.ffn_gate_exps.weight[{}]"},
    Name{&TensorNames::expert_up_proj, "blk.{}.ffn_up_exps.weight[{}]"},
    Name{&TensorNames::expert_down_proj, "blk.{}.ffn_down_exps.weight[{}]"},
};
// Each member has a name here.
static_assert(sizeof(TensorNames) == kNames.size() * sizeof(const char*));

}  // namespace

TensorNames gguf_tensor_names(const TensorNames& names) {
    TensorNames in_file;
    for (const Name& entry : kNames) {
        if (names.*entry.member != nullptr) in_file.*entry.member = entry.name;
    }
    return in_file;
}

}  // namespace nanolith
