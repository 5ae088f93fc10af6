// What each family makes of the fields that config.json leaves out, sets to null or gives a rule for.
#include <cmath>

#include "unit/model/config_fixture.h"

namespace nanolith::testing {
namespace {

struct Family {
    const char* architecture;
    int32_t kv_heads;
    int32_t head_dim;
    float epsilon;
    double theta;
    const char* layers = "ffffffffffff";
    int32_t window = 0;
    double local_theta = 0;  // of layers with a window; 0: theta
    bool tied = false;
    bool attention_bias = false;
    ExpertSpec experts = {};
    bool gemma = false;
    float attention_softcap = 0;
    float logit_softcap = 0;
};
void PrintTo(const Family& family, std::ostream* out) {
    *out << family.architecture;
}

// The defaults of Transformers' configuration classes.
const Family kFamilies[] = {
    {.architecture = "LlamaForCausalLM", .kv_heads = 32, .head_dim = 8, .epsilon = 1e-6F, .theta = 1e4},
    {.architecture = "MistralForCausalLM",
     .kv_heads = 8,
     .head_dim = 8,
     .epsilon = 1e-6F,
     .theta = 1e4,
     .layers = "wwwwwwwwwwww",
     .window = 4096},
    {.architecture = "MixtralForCausalLM",
     .kv_heads = 8,
     .head_dim = 8,
     .epsilon = 1e-5F,
     .theta = 1e6,
     .experts = {8, 2, 48, true}},
    {.architecture = "Qwen2ForCausalLM",
     .kv_heads = 32,
     .head_dim = 8,
     .epsilon = 1e-6F,
     .theta = 1e4,
     .attention_bias = true},
    {.architecture = "Qwen3ForCausalLM", .kv_heads = 32, .head_dim = 128, .epsilon = 1e-6F, .theta = 1e4},
    {.architecture = "Qwen3MoeForCausalLM",
     .kv_heads = 4,
     .head_dim = 8,
     .epsilon = 1e-6F,
     .theta = 1e4,
     .experts = {128, 8, 768, false}},
    {.architecture = "Ernie4_5ForCausalLM",
     .kv_heads = 2,
     .head_dim = 128,
     .epsilon = 1e-5F,
     .theta = 5e5,
     .tied = true},
    {.architecture = "Gemma2ForCausalLM",
     .kv_heads = 4,
     .head_dim = 256,
     .epsilon = 1e-6F,
     .theta = 1e4,
     .layers = "wfwfwfwfwfwf",
     .window = 4096,
     .tied = true,
     .gemma = true,
     .attention_softcap = 50,
     .logit_softcap = 30},
    {.architecture = "Gemma3ForCausalLM",
     .kv_heads = 4,
     .head_dim = 256,
     .epsilon = 1e-6F,
     .theta = 1e6,
     .layers = "wwwwwfwwwwwf",
     .window = 4096,
     .local_theta = 1e4,
     .tied = true,
     .gemma = true},
    {.architecture = "Phi3ForCausalLM", .kv_heads = 32, .head_dim = 8, .epsilon = 1e-5F, .theta = 1e4},
    {.architecture = "SmolLM3ForCausalLM",
     .kv_heads = 4,
     .head_dim = 8,
     .epsilon = 1e-6F,
     .theta = 2e6,
     .layers = "fffnfffnfffn",
     .tied = true},
};

class FamilyTest : public ::testing::TestWithParam<Family> {};

TEST_P(FamilyTest, FieldsLeftOutHaveTheReferencesDefaults) {
    const Family& family = GetParam();
    const auto config = parse(bare_config(family.architecture));
    ASSERT_TRUE(config.ok()) << config.error().message;
    const ModelSpec& spec = config->spec;
    EXPECT_EQ(spec.num_kv_heads, family.kv_heads);
    EXPECT_EQ(spec.head_dim, family.head_dim);
    EXPECT_EQ(spec.norm_epsilon, family.epsilon);
    EXPECT_EQ(spec.max_context, 8192);
    EXPECT_EQ(config->tied_head, family.tied);
    EXPECT_EQ(config->attention_bias, family.attention_bias);
    EXPECT_FALSE(config->mlp_bias);
    EXPECT_TRUE(config->end_tokens.empty());
    EXPECT_EQ(config->head_order.empty(), std::string(family.architecture) != "Ernie4_5ForCausalLM");

    EXPECT_EQ(layers_of(*config), family.layers);
    for (const LayerSpec& layer : spec.layers) {
        if (layer.window > 0) {
            EXPECT_EQ(layer.window, family.window);
        }
        const auto& frequencies = spec.ropes[layer.rope].frequencies;
        ASSERT_EQ(frequencies.size(), static_cast<size_t>(family.head_dim) / 2);
        if (frequencies[0] == 0) continue;
        const double theta = layer.window > 0 && family.local_theta > 0 ? family.local_theta : family.theta;
        EXPECT_FLOAT_EQ(frequencies[1], static_cast<float>(std::pow(theta, -2.0 / family.head_dim)));
    }

    EXPECT_EQ(spec.experts.count, family.experts.count);
    EXPECT_EQ(spec.experts.top_k, family.experts.top_k);
    EXPECT_EQ(spec.experts.intermediate_size, family.experts.intermediate_size);
    EXPECT_EQ(spec.experts.normalized, family.experts.normalized);
    EXPECT_EQ(config->has_experts, std::vector<bool>(12, family.experts.count > 0));

    EXPECT_EQ(spec.activation, family.gemma ? Activation::gelu_tanh : Activation::silu);
    EXPECT_EQ(spec.norm_offset, family.gemma ? 1.0F : 0.0F);
    EXPECT_EQ(spec.embedding_scale, family.gemma ? 16.0F : 1.0F);
    EXPECT_EQ(spec.attention_softcap, family.attention_softcap);
    EXPECT_EQ(spec.logit_softcap, family.logit_softcap);
    EXPECT_FLOAT_EQ(spec.attention_scale,
                    1.0F / std::sqrt(family.gemma ? 256.0F : static_cast<float>(family.head_dim)));
}

// null says that there is none: as many key-value heads as query heads, heads that share the hidden size, no window.
TEST_P(FamilyTest, NullIsNoneEvenWhereTheDefaultIsOne) {
    auto fields = bare_config(GetParam().architecture);
    for (const char* name : {"num_key_value_heads", "head_dim", "sliding_window"}) fields = with(fields, name, "null");
    const auto config = parse(fields);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->spec.num_kv_heads, 32);
    EXPECT_EQ(config->spec.head_dim, 8);
    for (const LayerSpec& layer : config->spec.layers) EXPECT_EQ(layer.window, 0);
}

TEST_P(FamilyTest, ValuesThatAreSetStand) {
    auto fields = bare_config(GetParam().architecture);
    fields = with(fields, "num_key_value_heads", "16");
    fields = with(fields, "head_dim", "64");
    fields = with(fields, "rms_norm_eps", "3e-4");
    fields = with(fields, "rope_theta", "777");
    fields = with(fields, "tie_word_embeddings", GetParam().tied ? "false" : "true");
    const auto config = parse(fields);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->spec.num_kv_heads, 16);
    EXPECT_EQ(config->spec.head_dim, 64);
    EXPECT_EQ(config->spec.norm_epsilon, 3e-4F);
    EXPECT_FLOAT_EQ(config->spec.ropes[0].frequencies[1], static_cast<float>(std::pow(777.0, -1.0 / 32)));
    EXPECT_EQ(config->tied_head, !GetParam().tied);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.architecture); });

TEST(ConfigFamily, EveryFamilyHasARow) {
    ASSERT_EQ(std::size(kFamilies), architectures().size());
    for (const Family& family : kFamilies) EXPECT_NE(find_architecture(family.architecture), nullptr);
}

TEST(ConfigFamily, SoftCapsOfGemma) {
    const auto gemma = bare_config("Gemma2ForCausalLM");
    for (const auto& [name, member] : {std::pair{"attn_logit_softcapping", &ModelSpec::attention_softcap},
                                       std::pair{"final_logit_softcapping", &ModelSpec::logit_softcap}}) {
        EXPECT_EQ(parse(with(gemma, name, "null"))->spec.*member, 0.0F);
        EXPECT_EQ(parse(with(gemma, name, "12.5"))->spec.*member, 12.5F);
        // Gemma 3's attention does not take the cap that its config has a field for.
        const bool is_attention = member == &ModelSpec::attention_softcap;
        EXPECT_EQ(parse(with(bare_config("Gemma3ForCausalLM"), name, "12.5"))->spec.*member,
                  is_attention ? 0.0F : 12.5F);
        EXPECT_EQ(parse(with(bare_config("LlamaForCausalLM"), name, "12.5"))->spec.*member, 0.0F);
        for (const char* value : {"0", "-1", "1e9"}) {
            expect_error(parse(with(gemma, name, value)), NL_ERROR_BAD_MODEL, {name, "above 0 and at most"});
        }
    }
    EXPECT_FLOAT_EQ(parse(with(gemma, "query_pre_attn_scalar", "144"))->spec.attention_scale, 1.0F / 12);
    expect_error(parse(with(gemma, "query_pre_attn_scalar", "0")), NL_ERROR_BAD_MODEL, {"query_pre_attn_scalar is 0"});
    expect_error(parse(with(gemma, "hidden_activation", "\"gelu\"")), NL_ERROR_UNSUPPORTED,
                 {"hidden_activation is \"gelu\"", "gelu_pytorch_tanh"});
}

TEST(ConfigFamily, BiasesByTheFamilysField) {
    const auto set = [](const char* architecture, const char* field) {
        const auto config = parse(with(bare_config(architecture), field, "true"));
        return std::pair(config->attention_bias, config->mlp_bias);
    };
    using Flags = std::pair<bool, bool>;
    for (const char* name : {"LlamaForCausalLM", "SmolLM3ForCausalLM"}) {
        EXPECT_EQ(set(name, "attention_bias"), Flags(true, false)) << name;
        EXPECT_EQ(set(name, "mlp_bias"), Flags(false, true)) << name;
    }
    EXPECT_EQ(set("Ernie4_5ForCausalLM", "use_bias"), Flags(true, true));
    for (const char* name : {"Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
        EXPECT_EQ(set(name, "attention_bias"), Flags(true, false)) << name;
        EXPECT_EQ(set(name, "mlp_bias"), Flags(false, false)) << name;
    }
    for (const char* name : {"MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"}) {
        EXPECT_EQ(set(name, "attention_bias"), Flags(false, false)) << name;
    }
    EXPECT_TRUE(parse(with(bare_config("Qwen2ForCausalLM"), "attention_bias", "false"))->attention_bias);
}

TEST(ConfigFamily, KeyValueHeadsByDefaultMustDivideToo) {
    const auto config = parse(with(bare_config("MistralForCausalLM"), "num_attention_heads", "4"));
    expect_error(config, NL_ERROR_BAD_MODEL, {"num_key_value_heads is missing", "divisor of num_attention_heads", "4"});
}

}  // namespace
}  // namespace nanolith::testing
