#include "model/architecture.h"

#include <gtest/gtest.h>

#include <set>

namespace nanolith {
namespace {

TEST(Architecture, IsFoundByItsExactName) {
    ASSERT_NE(find_architecture("LlamaForCausalLM"), nullptr);
    ASSERT_NE(find_architecture("Qwen3ForCausalLM"), nullptr);
    EXPECT_EQ(find_architecture("LlamaForCausalLM")->tensors.q_norm, nullptr);
    EXPECT_NE(find_architecture("Qwen3ForCausalLM")->tensors.q_norm, nullptr);
    EXPECT_EQ(find_architecture("llamaforcausallm"), nullptr);
    EXPECT_EQ(find_architecture("LlamaForCausalLM2"), nullptr);
    EXPECT_EQ(find_architecture(""), nullptr);
}

TEST(Architecture, NamesListsThemAll) {
    for (const Architecture& architecture : architectures()) {
        EXPECT_NE(architecture_names().find(architecture.name), std::string::npos);
    }
}

TEST(Architecture, EntriesAreComplete) {
    std::set<std::string> names;
    for (const Architecture& architecture : architectures()) {
        EXPECT_TRUE(names.insert(architecture.name).second) << architecture.name << " is there twice";
        const TensorNames& t = architecture.tensors;
        for (const char* name : {t.embedding, t.final_norm, t.head}) ASSERT_NE(name, nullptr);
        std::set<std::string> patterns;
        // Of alternatives each family has one: projections apart or fused, an MLP or experts (or both).
        const auto check = [&](const char* pattern, bool is_there, size_t holes) {
            SCOPED_TRACE(architecture.name);
            ASSERT_EQ(pattern != nullptr, is_there);
            if (!is_there) return;
            size_t found = 0;
            for (size_t at = 0; (at = std::string(pattern).find("{}", at)) != std::string::npos; ++at) ++found;
            EXPECT_EQ(found, holes) << pattern;
            EXPECT_TRUE(patterns.insert(pattern).second) << pattern << " names two tensors";
        };
        const bool fused_qkv = t.qkv_proj != nullptr;
        const bool fused_gate_up = t.gate_up_proj != nullptr;
        const bool has_experts = architecture.experts != ExpertRule::never;
        const bool has_mlp = architecture.experts != ExpertRule::every_layer;
        for (const char* pattern : {t.attention_norm, t.o_proj, t.mlp_norm}) check(pattern, true, 1);
        for (const char* pattern : {t.q_proj, t.k_proj, t.v_proj}) check(pattern, !fused_qkv, 1);
        if (architecture.attention_bias != Presence::never) {
            for (const char* pattern : {t.q_bias, t.k_bias, t.v_bias, t.o_bias}) check(pattern, true, 1);
        }
        for (const char* pattern : {t.gate_proj, t.up_proj}) check(pattern, has_mlp && !fused_gate_up, 1);
        check(t.down_proj, has_mlp, 1);
        if (architecture.mlp_bias != Presence::never) {
            for (const char* pattern : {t.gate_bias, t.up_bias, t.down_bias}) check(pattern, true, 1);
        }
        for (const char* pattern : {t.q_norm, t.k_norm}) check(pattern, t.q_norm != nullptr, 1);
        for (const char* pattern : {t.attention_post_norm, t.mlp_post_norm}) check(pattern, architecture.gemma, 1);
        check(t.router, has_experts, 1);
        for (const char* pattern : {t.expert_gate_proj, t.expert_up_proj, t.expert_down_proj})
            check(pattern, has_experts, 2);
        EXPECT_GT(architecture.default_rope_theta, 0);
        EXPECT_GT(architecture.default_norm_epsilon, 0);
    }
}

TEST(Architecture, PatternsTakeTheLayer) {
    EXPECT_EQ(layer_tensor_name("model.layers.{}.mlp.up_proj.weight", 31), "model.layers.31.mlp.up_proj.weight");
    EXPECT_EQ(layer_tensor_name("{}", 0), "0");
    EXPECT_EQ(layer_tensor_name("layers.{}.experts.{}.w1", 3, 127), "layers.3.experts.127.w1");
    EXPECT_EQ(layer_tensor_name("norm", 7), "norm");
}

}  // namespace
}  // namespace nanolith
