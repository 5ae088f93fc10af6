// What config.json says of each layer: windows, rotation and experts, by each family's rule or layer by layer.
#include <algorithm>
#include <set>
#include <string>

#include "unit/model/config_fixture.h"

namespace nanolith::testing {
namespace {

TEST(ConfigLayers, WindowsByTheFamilysRule) {
    const auto windowed = [](const char* architecture, const ConfigFields& more) {
        auto fields = with(bare_config(architecture), "sliding_window", "64");
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
    EXPECT_EQ(parse(with(bare_config("MistralForCausalLM"), "sliding_window", "64"))->spec.layers[3].window, 64);
    for (const char* value : {"0", "-1", "1.5", "\"64\"", "true"}) {
        expect_error(parse(with(bare_config("MistralForCausalLM"), "sliding_window", value)), NL_ERROR_BAD_MODEL,
                     {std::string("sliding_window is ") + value, "an integer from 1"});
    }
    expect_error(parse(with(bare_config("Qwen2ForCausalLM"), "max_window_layers", "-1")), NL_ERROR_BAD_MODEL,
                 {"max_window_layers is -1"});
    expect_error(parse(with(bare_config("Gemma3ForCausalLM"), "sliding_window_pattern", "0")), NL_ERROR_BAD_MODEL,
                 {"sliding_window_pattern is 0"});
    expect_error(parse(with(bare_config("Qwen2ForCausalLM"), "use_sliding_window", "1")), NL_ERROR_BAD_MODEL,
                 {"use_sliding_window is 1", "true or false"});
}

// "layer_types" has the last word where it is there, in the families whose reference reads it.
TEST(ConfigLayers, LayerTypesGoBeforeTheRule) {
    const std::set<std::string> readers = {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma2ForCausalLM",
                                           "Gemma3ForCausalLM", "SmolLM3ForCausalLM"};
    const std::string types = R"(["sliding_attention", "full_attention", "full_attention"])";
    for (const Architecture& architecture : architectures()) {
        SCOPED_TRACE(architecture.name);
        auto fields = with(bare_config(architecture.name), "num_hidden_layers", "3");
        fields =
            with(with(with(fields, "sliding_window", "64"), "use_sliding_window", "true"), "num_hidden_layers", "3");
        const std::string plain = layers_of(fields);
        fields = with(fields, "layer_types", types);
        const auto config = parse(fields);
        if (architecture.windows == WindowRule::never) {
            expect_error(config, NL_ERROR_UNSUPPORTED, {"layer_types", "sliding_attention"});
            continue;
        }
        if (!readers.contains(architecture.name)) {
            expect_error(config, NL_ERROR_UNSUPPORTED, {"layer_types", "none in this family"});
            const auto same =
                with(fields, "layer_types", R"(["sliding_attention", "sliding_attention", "sliding_attention"])");
            EXPECT_EQ(layers_of(same), plain);
            EXPECT_EQ(layers_of(with(with(fields, "sliding_window", "null"), "use_sliding_window", "false")), "fff");
            continue;
        }
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(layers_of(*config), "wff");
        EXPECT_EQ(config->spec.layers[0].window, 64);
        if (architecture.windows == WindowRule::from_layer) {
            expect_error(parse(with(fields, "use_sliding_window", "false")), NL_ERROR_UNSUPPORTED,
                         {"use_sliding_window is false", "layer_types"});
        }
        fields = with(fields, "layer_types", R"(["full_attention", "sliding_attention"])");
        expect_error(parse(fields), NL_ERROR_BAD_MODEL, {"layer_types", "3 entries"});
        fields = with(fields, "layer_types", R"(["full_attention", "linear_attention", "full_attention"])");
        expect_error(parse(fields), NL_ERROR_UNSUPPORTED, {"layer_types", "linear_attention", "\"full_attention\" or"});
    }
}

TEST(ConfigLayers, LayersWithoutRope) {
    const auto smol = with(bare_config("SmolLM3ForCausalLM"), "num_hidden_layers", "4");
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
    EXPECT_EQ(layers_of(with(bare_config("LlamaForCausalLM"), "no_rope_layers", "[0]")), std::string(12, 'f'));
}

TEST(ConfigLayers, LayersWithExperts) {
    const auto experts = [](const ConfigFields& more) {
        auto fields = with(bare_config("Qwen3MoeForCausalLM"), "num_hidden_layers", "6");
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
    const auto mixtral = bare_config("MixtralForCausalLM");
    EXPECT_EQ(parse(with(mixtral, "num_local_experts", "16"))->spec.experts.count, 16);
    expect_error(parse(with(mixtral, "num_experts_per_tok", "9")), NL_ERROR_BAD_MODEL,
                 {"num_experts_per_tok is 9", "from 1 to 8"});
}

// Phi-3 with four pairs a head: the context that is wanted chooses among the factors.
TEST(ConfigLayers, LongRopeFollowsTheContextThatIsWanted) {
    auto phi = with(bare_config("Phi3ForCausalLM"), "original_max_position_embeddings", "1024");
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

// The share of a head that turns is Phi's; elsewhere the reference does not look, or fails where RoPE is scaled.
TEST(ConfigLayers, PartialRotationIsPhis) {
    for (const Architecture& architecture : architectures()) {
        SCOPED_TRACE(architecture.name);
        const auto fields =
            with(with(bare_config(architecture.name), "head_dim", "16"), "partial_rotary_factor", "0.5");
        const bool is_phi = std::string(architecture.name) == "Phi3ForCausalLM";
        for (const auto& plain : {fields, with(fields, "rope_parameters", R"({"rope_type": "default"})")}) {
            const auto config = parse(plain);
            ASSERT_TRUE(config.ok()) << config.error().message;
            const auto& frequencies = config->spec.ropes[0].frequencies;
            EXPECT_EQ(std::ranges::count(frequencies, 0.0F), is_phi ? 4 : 0);
        }
        if (is_phi) continue;
        const std::string scaled = R"({"rope_type": "linear", "factor": 2)";
        expect_error(parse(with(fields, "rope_scaling", scaled + "}")), NL_ERROR_UNSUPPORTED,
                     {"FILE: partial_rotary_factor is 0.5", "expected 1"});
        const auto inside =
            with(bare_config(architecture.name), "rope_scaling", scaled + R"(, "partial_rotary_factor": 0.5})");
        expect_error(parse(inside), NL_ERROR_UNSUPPORTED, {"rope_scaling.partial_rotary_factor is 0.5", "expected 1"});
    }
}

// Models are made ready for YaRN by their config alone: the context may still be the one before it, or already the new.
TEST(ConfigLayers, YarnStretchesTheContext) {
    const auto context = [](const std::string& scaling) {
        const auto config = parse(with(tiny_config(), "rope_scaling", "{\"type\":\"yarn\"," + scaling + "}"));
        return config.ok() ? config->spec.max_context : -1;
    };
    // tiny_config() says 128.
    EXPECT_EQ(context(R"("factor":4,"original_max_position_embeddings":128)"), 512);
    EXPECT_EQ(context(R"("factor":4,"original_max_position_embeddings":32)"), 128);
    EXPECT_EQ(context(R"("factor":2,"original_max_position_embeddings":32)"), 128);
    EXPECT_EQ(context(R"("factor":2.5)"), 320);
    EXPECT_EQ(context(R"("factor":1000000,"original_max_position_embeddings":1073741824)"), 1 << 30);
}

}  // namespace
}  // namespace nanolith::testing
