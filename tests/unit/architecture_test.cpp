#include "model/architecture.h"

#include <gtest/gtest.h>

#include <set>

namespace nanolith {
namespace {

TEST(Architecture, IsFoundByItsExactName) {
    ASSERT_NE(find_architecture("LlamaForCausalLM"), nullptr);
    ASSERT_NE(find_architecture("Qwen3ForCausalLM"), nullptr);
    EXPECT_FALSE(find_architecture("LlamaForCausalLM")->qk_norm);
    EXPECT_TRUE(find_architecture("Qwen3ForCausalLM")->qk_norm);
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
        for (const char* pattern :
             {t.attention_norm, t.q_proj, t.k_proj, t.v_proj, t.o_proj, t.q_bias, t.k_bias, t.v_bias, t.o_bias,
              t.q_norm, t.k_norm, t.mlp_norm, t.gate_proj, t.up_proj, t.down_proj}) {
            ASSERT_NE(pattern, nullptr) << architecture.name;
            EXPECT_NE(std::string(pattern).find("{}"), std::string::npos) << pattern;
            EXPECT_TRUE(patterns.insert(pattern).second) << pattern << " names two tensors";
        }
        EXPECT_GT(architecture.default_rope_theta, 0);
        EXPECT_GT(architecture.default_norm_epsilon, 0);
    }
}

TEST(Architecture, PatternsTakeTheLayer) {
    EXPECT_EQ(layer_tensor_name("model.layers.{}.mlp.up_proj.weight", 31), "model.layers.31.mlp.up_proj.weight");
    EXPECT_EQ(layer_tensor_name("{}", 0), "0");
    EXPECT_EQ(layer_tensor_name("norm", 7), "norm");
}

}  // namespace
}  // namespace nanolith
