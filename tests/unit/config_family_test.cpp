// What each family makes of the fields that config.json leaves out, sets to null or gives a rule for.
#include <cmath>

#include "files/json.h"
#include "model/config.h"
#include "unit/model_files.h"

namespace nanolith {
namespace {

using testing::ConfigFields;
using testing::expect_error;
using testing::json_text;
using testing::with;

// Twelve layers, 32 query heads and a hidden size that makes heads of 8; nothing else.
ConfigFields bare(const std::string& architecture) {
    return {{"architectures", "[\"" + architecture + "\"]"},
            {"vocab_size", "16"},
            {"hidden_size", "256"},
            {"intermediate_size", "48"},
            {"num_hidden_layers", "12"},
            {"num_attention_heads", "32"},
            {"max_position_embeddings", "8192"}};
}

Result<Config> parse(const ConfigFields& fields, int64_t max_context = 0) {
    return parse_config(json_text(fields), "FILE", max_context);
}

// 'f': everything is seen; 'w': a window; 'n': everything, without RoPE; 'x': a window, without RoPE.
std::string layers_of(const Config& config) {
    std::string text;
    for (const LayerSpec& layer : config.spec.layers) {
        const auto& frequencies = config.spec.ropes[static_cast<size_t>(layer.rope)].frequencies;
        text += frequencies[0] == 0 ? (layer.window > 0 ? 'x' : 'n') : (layer.window > 0 ? 'w' : 'f');
    }
    return text;
}

std::string layers_of(const ConfigFields& fields) {
    const auto config = parse(fields);
    return config.ok() ? layers_of(*config) : config.error().message;
}

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
    const auto config = parse(bare(family.architecture));
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
        const auto& frequencies = spec.ropes[static_cast<size_t>(layer.rope)].frequencies;
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
    auto fields = bare(GetParam().architecture);
    for (const char* name : {"num_key_value_heads", "head_dim", "sliding_window"}) fields = with(fields, name, "null");
    const auto config = parse(fields);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->spec.num_kv_heads, 32);
    EXPECT_EQ(config->spec.head_dim, 8);
    for (const LayerSpec& layer : config->spec.layers) EXPECT_EQ(layer.window, 0);
}

TEST_P(FamilyTest, ValuesThatAreSetStand) {
    auto fields = bare(GetParam().architecture);
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
    const auto gemma = bare("Gemma2ForCausalLM");
    for (const auto& [name, member] : {std::pair{"attn_logit_softcapping", &ModelSpec::attention_softcap},
                                       std::pair{"final_logit_softcapping", &ModelSpec::logit_softcap}}) {
        EXPECT_EQ(parse(with(gemma, name, "null"))->spec.*member, 0.0F);
        EXPECT_EQ(parse(with(gemma, name, "12.5"))->spec.*member, 12.5F);
        EXPECT_EQ(parse(with(bare("Gemma3ForCausalLM"), name, "12.5"))->spec.*member, 12.5F);
        EXPECT_EQ(parse(with(bare("LlamaForCausalLM"), name, "12.5"))->spec.*member, 0.0F);
        for (const char* value : {"0", "-1", "1e9"}) {
            expect_error(parse(with(gemma, name, value)), NL_ERROR_BAD_MODEL, {name, "above 0 and at most"});
        }
    }
    EXPECT_FLOAT_EQ(parse(with(gemma, "query_pre_attn_scalar", "144"))->spec.attention_scale, 1.0F / 12);
    expect_error(parse(with(gemma, "query_pre_attn_scalar", "0")), NL_ERROR_BAD_MODEL, {"query_pre_attn_scalar is 0"});
    expect_error(parse(with(gemma, "hidden_activation", "\"gelu\"")), NL_ERROR_UNSUPPORTED,
                 {"hidden_activation is \"gelu\"", "gelu_pytorch_tanh"});
}

TEST(ConfigFamily, WindowsByTheFamilysRule) {
    const auto windowed = [](const char* architecture, const ConfigFields& more) {
        auto fields = with(bare(architecture), "sliding_window", "64");
        for (const auto& [name, value] : more) fields = with(fields, name, value);
        return layers_of(fields);
    };
    const std::string all(12, 'w');
    const std::string none(12, 'f');
    for (const char* name : {"MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"}) {
        EXPECT_EQ(windowed(name, {}), all) << name;
    }
    EXPECT_EQ(windowed("LlamaForCausalLM", {{"use_sliding_window", "true"}}), none);
    EXPECT_EQ(windowed("Ernie4_5ForCausalLM", {}), none);
    for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
        EXPECT_EQ(windowed(name, {}), none) << name;
        EXPECT_EQ(windowed(name, {{"use_sliding_window", "false"}, {"max_window_layers", "0"}}), none) << name;
        EXPECT_EQ(windowed(name, {{"use_sliding_window", "true"}}), none) << name;  // from layer 28 on
        EXPECT_EQ(windowed(name, {{"use_sliding_window", "true"}, {"max_window_layers", "9"}}), "fffffffffwww") << name;
        EXPECT_EQ(windowed(name, {{"use_sliding_window", "true"}, {"max_window_layers", "0"}}), all) << name;
    }
    EXPECT_EQ(windowed("Qwen3MoeForCausalLM", {}), none);
    EXPECT_EQ(windowed("Qwen3MoeForCausalLM", {{"use_sliding_window", "true"}}), all);
    EXPECT_EQ(windowed("Gemma2ForCausalLM", {}), "wfwfwfwfwfwf");
    EXPECT_EQ(windowed("Gemma3ForCausalLM", {}), "wwwwwfwwwwwf");
    EXPECT_EQ(windowed("Gemma3ForCausalLM", {{"sliding_window_pattern", "4"}}), "wwwfwwwfwwwf");
    EXPECT_EQ(windowed("SmolLM3ForCausalLM", {}), "fffnfffnfffn");
    EXPECT_EQ(windowed("SmolLM3ForCausalLM", {{"use_sliding_window", "true"}}), "fffxfffxfffx");
    EXPECT_EQ(parse(with(bare("MistralForCausalLM"), "sliding_window", "64"))->spec.layers[3].window, 64);
    for (const char* value : {"0", "-1", "1.5", "\"64\"", "true"}) {
        expect_error(parse(with(bare("MistralForCausalLM"), "sliding_window", value)), NL_ERROR_BAD_MODEL,
                     {std::string("sliding_window is ") + value, "an integer from 1"});
    }
    expect_error(parse(with(bare("Qwen2ForCausalLM"), "max_window_layers", "-1")), NL_ERROR_BAD_MODEL,
                 {"max_window_layers is -1"});
    expect_error(parse(with(bare("Gemma3ForCausalLM"), "sliding_window_pattern", "0")), NL_ERROR_BAD_MODEL,
                 {"sliding_window_pattern is 0"});
    expect_error(parse(with(bare("Qwen2ForCausalLM"), "use_sliding_window", "1")), NL_ERROR_BAD_MODEL,
                 {"use_sliding_window is 1", "true or false"});
}

// "layer_types" has the last word where it is there, in every family that has windows.
TEST(ConfigFamily, LayerTypesGoBeforeTheRule) {
    const std::string types = R"(["sliding_attention", "full_attention", "full_attention"])";
    for (const Architecture& architecture : architectures()) {
        SCOPED_TRACE(architecture.name);
        auto fields = with(bare(architecture.name), "num_hidden_layers", "3");
        fields = with(with(fields, "sliding_window", "64"), "layer_types", types);
        const auto config = parse(fields);
        if (architecture.windows == WindowRule::never) {
            expect_error(config, NL_ERROR_UNSUPPORTED, {"layer_types", "sliding_attention"});
            continue;
        }
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(layers_of(*config), "wff");
        EXPECT_EQ(config->spec.layers[0].window, 64);
        fields = with(fields, "layer_types", R"(["full_attention", "sliding_attention"])");
        expect_error(parse(fields), NL_ERROR_BAD_MODEL, {"layer_types", "3 entries"});
        fields = with(fields, "layer_types", R"(["full_attention", "linear_attention", "full_attention"])");
        expect_error(parse(fields), NL_ERROR_UNSUPPORTED, {"layer_types", "linear_attention", "\"full_attention\" or"});
    }
}

TEST(ConfigFamily, LayersWithoutRope) {
    const auto smol = with(bare("SmolLM3ForCausalLM"), "num_hidden_layers", "4");
    EXPECT_EQ(layers_of(with(smol, "no_rope_layers", "[1, 0, 0, 1]")), "fnnf");
    EXPECT_EQ(layers_of(with(smol, "no_rope_layers", "[1, 1, 1, 1, 0]")), "ffff");  // of a deeper model
    EXPECT_EQ(layers_of(with(smol, "no_rope_layers", "null")), "fffn");
    EXPECT_EQ(layers_of(with(smol, "no_rope_layer_interval", "2")), "fnfn");
    expect_error(parse(with(smol, "no_rope_layers", "[1, 1, 1]")), NL_ERROR_BAD_MODEL,
                 {"no_rope_layers is [1,1,1]", "at least 4 entries"});
    expect_error(parse(with(smol, "no_rope_layers", "[1, 2, 1, 1]")), NL_ERROR_BAD_MODEL, {"no_rope_layers", "0 to 1"});
    expect_error(parse(with(smol, "no_rope_layers", "3")), NL_ERROR_BAD_MODEL, {"no_rope_layers is 3", "list"});
    expect_error(parse(with(smol, "no_rope_layer_interval", "0")), NL_ERROR_BAD_MODEL, {"no_rope_layer_interval is 0"});
    // Other families do not read it.
    EXPECT_EQ(layers_of(with(bare("LlamaForCausalLM"), "no_rope_layers", "[0]")), std::string(12, 'f'));
}

TEST(ConfigFamily, LayersWithExperts) {
    const auto experts = [](const ConfigFields& more) {
        auto fields = with(bare("Qwen3MoeForCausalLM"), "num_hidden_layers", "6");
        for (const auto& [name, value] : more) fields = with(fields, name, value);
        return parse(fields);
    };
    const auto layers = [&](const ConfigFields& more) {
        std::string text;
        const auto config = experts(more);
        if (!config.ok()) return config.error().message;
        for (const bool has : config->has_experts) text += has ? 'e' : '-';
        return text;
    };
    EXPECT_EQ(layers({}), "eeeeee");
    EXPECT_EQ(layers({{"decoder_sparse_step", "2"}}), "-e-e-e");
    EXPECT_EQ(layers({{"mlp_only_layers", "[0, 4]"}}), "-eee-e");
    EXPECT_EQ(layers({{"decoder_sparse_step", "3"}, {"mlp_only_layers", "[5, 9]"}}), "--e---");
    EXPECT_EQ(layers({{"decoder_sparse_step", "7"}}), "------");
    const auto set = experts({{"num_experts", "5"},
                              {"num_experts_per_tok", "5"},
                              {"moe_intermediate_size", "20"},
                              {"norm_topk_prob", "true"}});
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_EQ(set->spec.experts.count, 5);
    EXPECT_EQ(set->spec.experts.top_k, 5);
    EXPECT_EQ(set->spec.experts.intermediate_size, 20);
    EXPECT_TRUE(set->spec.experts.normalized);
    EXPECT_EQ(experts({{"num_local_experts", "64"}})->spec.experts.count, 64);  // its other name

    expect_error(experts({{"num_experts", "0"}}), NL_ERROR_BAD_MODEL, {"num_experts is 0", "from 1 to"});
    expect_error(experts({{"num_experts", "4"}}), NL_ERROR_BAD_MODEL, {"num_experts_per_tok is missing", "at most 4"});
    expect_error(experts({{"num_experts_per_tok", "0"}}), NL_ERROR_BAD_MODEL, {"num_experts_per_tok is 0"});
    expect_error(experts({{"moe_intermediate_size", "-3"}}), NL_ERROR_BAD_MODEL, {"moe_intermediate_size is -3"});
    expect_error(experts({{"decoder_sparse_step", "0"}}), NL_ERROR_BAD_MODEL, {"decoder_sparse_step is 0"});
    expect_error(experts({{"mlp_only_layers", "[-1]"}}), NL_ERROR_BAD_MODEL, {"mlp_only_layers is [-1]"});
    expect_error(experts({{"mlp_only_layers", "2"}}), NL_ERROR_BAD_MODEL, {"mlp_only_layers is 2", "list"});
    expect_error(experts({{"norm_topk_prob", "1"}}), NL_ERROR_BAD_MODEL, {"norm_topk_prob is 1"});
    const auto mixtral = bare("MixtralForCausalLM");
    EXPECT_EQ(parse(with(mixtral, "num_local_experts", "16"))->spec.experts.count, 16);
    expect_error(parse(with(mixtral, "num_experts_per_tok", "9")), NL_ERROR_BAD_MODEL,
                 {"num_experts_per_tok is 9", "from 1 to 8"});
}

TEST(ConfigFamily, BiasesByTheFamilysField) {
    const auto set = [](const char* architecture, const char* field) {
        const auto config = parse(with(bare(architecture), field, "true"));
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
    EXPECT_TRUE(parse(with(bare("Qwen2ForCausalLM"), "attention_bias", "false"))->attention_bias);
}

// Phi-3 with four pairs a head: the context that is wanted chooses among the factors.
TEST(ConfigFamily, LongRopeFollowsTheContextThatIsWanted) {
    auto phi = with(bare("Phi3ForCausalLM"), "original_max_position_embeddings", "1024");
    phi =
        with(phi, "rope_scaling", R"({"type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 2]})");
    const struct {
        int64_t wanted;
        int32_t context;
        float first;
    } cases[] = {{0, 1024, 1.0F}, {1, 1, 1.0F}, {1024, 1024, 1.0F}, {1025, 1025, 0.5F}, {8192, 8192, 0.5F}};
    for (const auto& c : cases) {
        SCOPED_TRACE(c.wanted);
        const auto config = parse(phi, c.wanted);
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(config->spec.max_context, c.context);
        EXPECT_EQ(config->spec.ropes[0].frequencies[0], c.first);
        // sqrt(1 + ln 8 / ln 1024), the model's own stretch whatever is wanted
        EXPECT_EQ(config->spec.ropes[0].magnitudes, std::vector<float>(4, 1.14017543F));
    }
    expect_error(parse(phi, 8193), NL_ERROR_INVALID_ARGUMENT, {"max_context is 8193", "at most 8192"});
    // A model that was never extended has one set of angles.
    const auto plain = parse(with(phi, "original_max_position_embeddings", "8192"));
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    EXPECT_EQ(plain->spec.max_context, 8192);
    EXPECT_EQ(plain->spec.ropes[0].frequencies[0], 1.0F);
    expect_error(parse(with(phi, "head_dim", "16")), NL_ERROR_BAD_MODEL, {"rope_scaling is", "each of the 8 pairs"});
    // Partial rotation needs as many factors as pairs turn.
    auto partial = with(with(phi, "head_dim", "16"), "partial_rotary_factor", "0.5");
    const auto half = parse(partial);
    ASSERT_TRUE(half.ok()) << half.error().message;
    EXPECT_EQ(half->head_order, std::vector<int32_t>({0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}));
}

TEST(ConfigFamily, RotationsOfLayersMustTurnTheSameElements) {
    expect_error(parse(with(bare("Gemma3ForCausalLM"), "rope_parameters", R"({
        "full_attention": {"rope_type": "default", "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default"}})")),
                 NL_ERROR_BAD_MODEL, {"rope_parameters is", "in all layers"});
}

TEST(ConfigFamily, KeyValueHeadsByDefaultMustDivideToo) {
    const auto config = parse(with(bare("MistralForCausalLM"), "num_attention_heads", "4"));
    expect_error(config, NL_ERROR_BAD_MODEL, {"num_key_value_heads is missing", "divisor of num_attention_heads", "4"});
}

}  // namespace
}  // namespace nanolith
