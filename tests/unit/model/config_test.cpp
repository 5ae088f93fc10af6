#include "model/config.h"

#include <cmath>

#include "files/json.h"
#include "unit/model/config_fixture.h"

namespace nanolith::testing {
namespace {

Result<Config> parse_with(const std::string& name, const std::string& value) {
    return parse(with(tiny_config(), name, value));
}

TEST(Config, ReadsEveryField) {
    const auto config = parse(tiny_config());
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_STREQ(config->architecture->name, "LlamaForCausalLM");
    const ModelSpec& spec = config->spec;
    EXPECT_EQ(spec.vocab_size, 16);
    EXPECT_EQ(spec.hidden_size, 8);
    EXPECT_EQ(spec.intermediate_size, 12);
    EXPECT_EQ(spec.num_layers, 2);
    EXPECT_EQ(spec.num_heads, 2);
    EXPECT_EQ(spec.num_kv_heads, 1);
    EXPECT_EQ(spec.head_dim, 6);
    EXPECT_EQ(spec.max_context, 128);
    EXPECT_FLOAT_EQ(spec.norm_epsilon, 1e-5F);
    EXPECT_FLOAT_EQ(spec.attention_scale, 1.0F / std::sqrt(6.0F));
    ASSERT_EQ(spec.ropes.size(), 1U);
    ASSERT_EQ(spec.ropes[0].frequencies.size(), 3U);
    EXPECT_FLOAT_EQ(spec.ropes[0].frequencies[1], std::pow(10000.0F, -2.0F / 6.0F));
    EXPECT_TRUE(spec.ropes[0].magnitudes.empty());
    ASSERT_EQ(spec.layers.size(), 2U);
    for (const LayerSpec& layer : spec.layers) {
        EXPECT_EQ(layer.rope, 0);
        EXPECT_EQ(layer.window, 0);
    }
    EXPECT_EQ(spec.experts.count, 0);
    EXPECT_TRUE(config->head_order.empty());
    EXPECT_EQ(config->quantization.method, QuantMethod::none);
    EXPECT_FALSE(config->tied_head);
    EXPECT_FALSE(config->attention_bias);
    EXPECT_FALSE(config->mlp_bias);
    EXPECT_EQ(config->end_tokens, std::vector<int32_t>({2}));
}

TEST(Config, ReadsFlagsAndEndTokens) {
    EXPECT_TRUE(parse_with("tie_word_embeddings", "true")->tied_head);
    EXPECT_TRUE(parse_with("attention_bias", "true")->attention_bias);
    EXPECT_TRUE(parse_with("mlp_bias", "true")->mlp_bias);
    for (const char* name : {"attention_bias", "mlp_bias", "tie_word_embeddings"}) {
        expect_error(parse_with(name, "1"), NL_ERROR_BAD_MODEL, {std::string(name) + " is 1", "true or false"});
    }
    EXPECT_EQ(parse_with("eos_token_id", "[1, 15]")->end_tokens, std::vector<int32_t>({1, 15}));
    EXPECT_TRUE(parse_with("eos_token_id", "null")->end_tokens.empty());
    for (const char* value : {"16", "-1", "\"2\"", "2.0", "[2, 16]", "[[2]]", "{}", "true", "18446744073709551615"}) {
        expect_error(parse_with("eos_token_id", value), NL_ERROR_BAD_MODEL, {"FILE", "eos_token_id", "0 to 15"});
    }
    EXPECT_EQ(*parse_end_tokens(R"({"eos_token_id": [3, 4]})", "FILE", 16), std::vector<int32_t>({3, 4}));
    EXPECT_TRUE(parse_end_tokens("{}", "FILE", 16)->empty());
    expect_error(parse_end_tokens("[]", "FILE", 16), NL_ERROR_BAD_MODEL, {"FILE"});
}

TEST(Config, RefusesSizesByFieldValueAndRange) {
    for (const char* name : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                             "num_attention_heads", "max_position_embeddings"}) {
        expect_error(parse_with(name, ""), NL_ERROR_BAD_MODEL, {"FILE", name, "missing", "an integer from 1 to"});
        expect_error(parse_with(name, "null"), NL_ERROR_BAD_MODEL, {name, "missing"});
        for (const char* value : {"0", "-1", "-9223372036854775808", "9223372036854775807", "9223372036854775808",
                                  "18446744073709551615", "2147483647", "1e30", "8.0", "\"8\"", "true", "[8]", "{}"}) {
            SCOPED_TRACE(std::string(name) + " = " + value);
            const auto config = parse_with(name, value);
            ASSERT_FALSE(config.ok());
            expect_error(config, NL_ERROR_BAD_MODEL, {"FILE", std::string(name) + " is ", "an integer from 1 to"});
        }
    }
    for (const char* value : {"0", "-2", "5", "4097", "100000000000", "\"6\""}) {
        expect_error(parse_with("head_dim", value), NL_ERROR_BAD_MODEL, {"head_dim is " + std::string(value)});
    }
    for (const char* value : {"0", "3", "4", "-1", "1.5"}) {
        expect_error(parse_with("num_key_value_heads", value), NL_ERROR_BAD_MODEL,
                     {"num_key_value_heads is " + std::string(value)});
    }
    for (const char* value : {"0", "-1e-6", "2", "\"1e-6\""}) {
        expect_error(parse_with("rms_norm_eps", value), NL_ERROR_BAD_MODEL, {"rms_norm_eps"});
    }
    expect_error(parse(with(with(tiny_config(), "head_dim", ""), "num_attention_heads", "3")), NL_ERROR_BAD_MODEL,
                 {"hidden_size is 8", "num_attention_heads, which is 3"});
    // Large sizes that the limits allow must not overflow anything either.
    auto large = tiny_config();
    large = with(large, "num_attention_heads", "16384");
    large = with(large, "num_key_value_heads", "16384");
    large = with(large, "head_dim", "4096");
    large = with(large, "hidden_size", "1048576");
    EXPECT_TRUE(parse(large).ok());
}

TEST(Config, NamesTheArchitectureAndThoseSupported) {
    expect_error(parse_with("architectures", "[\"MambaForCausalLM\"]"), NL_ERROR_UNSUPPORTED,
                 {"FILE", "MambaForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM"});
    for (const char* value : {"", "[]", "\"LlamaForCausalLM\"", "[1]", "{}", "null"}) {
        expect_error(parse_with("architectures", value), NL_ERROR_BAD_MODEL, {"architectures"});
    }
}

TEST(Config, RefusesWhatIsNotComputedByName) {
    expect_error(parse_with("hidden_act", "\"gelu\""), NL_ERROR_UNSUPPORTED, {"hidden_act", "\"gelu\"", "\"silu\""});
    expect_error(parse_with("hidden_act", "1"), NL_ERROR_BAD_MODEL, {"hidden_act is 1", "a string"});
    EXPECT_EQ(parse_with("hidden_act", "\"gelu_pytorch_tanh\"")->spec.activation, Activation::gelu_tanh);
    expect_error(parse_with("use_bidirectional_attention", "true"), NL_ERROR_UNSUPPORTED,
                 {"use_bidirectional_attention is true", "false"});
    expect_error(parse_with("quantization_config", R"({"bits": 4})"), NL_ERROR_UNSUPPORTED,
                 {"quantization_config.quant_method is missing"});
    // Llama has no windows: layers that ask for one would be computed wrong.
    expect_error(parse_with("layer_types", R"(["full_attention", "sliding_attention"])"), NL_ERROR_UNSUPPORTED,
                 {"layer_types", "sliding_attention", "\"full_attention\" for every layer"});
    expect_error(parse_with("layer_types", R"(["full_attention", "chunked_attention"])"), NL_ERROR_UNSUPPORTED,
                 {"layer_types", "chunked_attention"});
    for (const char* value : {"\"full_attention\"", "[]", R"(["full_attention"])",
                              R"(["full_attention", "full_attention", "full_attention"])"}) {
        expect_error(parse_with("layer_types", value), NL_ERROR_BAD_MODEL, {"layer_types", "2 entries"});
    }
    // A window that no layer uses is fine.
    EXPECT_TRUE(parse_with("layer_types", R"(["full_attention", "full_attention"])").ok());
    EXPECT_TRUE(parse(with(with(tiny_config(), "sliding_window", "4096"), "use_sliding_window", "false")).ok());
}

TEST(Config, MaxContextIsOfTheModelAtMost) {
    const std::string text = json_text(tiny_config());
    EXPECT_EQ(parse_config(text, "FILE", 1)->spec.max_context, 1);
    EXPECT_EQ(parse_config(text, "FILE", 128)->spec.max_context, 128);
    expect_error(parse_config(text, "FILE", 129), NL_ERROR_INVALID_ARGUMENT, {"max_context is 129", "at most 128"});
    expect_error(parse_config(text, "FILE", INT64_MAX), NL_ERROR_INVALID_ARGUMENT, {"max_context is", "at most 128"});
}

TEST(Config, RefusesWhatIsNotAJsonObject) {
    for (const char* text : {"", "null", "[]", "{", "{\"a\":1,}", "{}x", "{\"vocab_size\":1,\"vocab_size\":1}",
                             "\xef\xbb", "{\"a\":1e999}"}) {
        expect_error(parse_config(text, "FILE"), NL_ERROR_BAD_MODEL, {"FILE"});
    }
    expect_error(parse_config(std::string(17U << 20, ' '), "FILE"), NL_ERROR_BAD_MODEL, {"17825792", "16777216"});
    std::string deep = "{\"a\":";
    deep.append(100000, '[');
    expect_error(parse_config(deep, "FILE"), NL_ERROR_BAD_MODEL, {"nested"});
    deep.append(100000, ']');
    expect_error(parse_config(deep + "}", "FILE"), NL_ERROR_BAD_MODEL, {"nested"});
}

TEST(Config, EveryTruncationIsAnError) {
    const std::string text = json_text(tiny_config());
    for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(parse_config(text.substr(0, size), "FILE").ok());
}

TEST(Config, RandomDamageGivesAnErrorOrSizesInRange) {
    const std::string good = json_text(with(tiny_config(), "rope_scaling", R"({"rope_type":"llama3","factor":8,
        "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64})"));
    ASSERT_TRUE(parse_config(good, "FILE").ok());
    std::mt19937 random(fresh_seed());
    const std::string likely = "0123456789{}[],:\"-.eE\\ ";
    int accepted = 0;
    for (int round = 0; round < 10000; ++round) {
        std::string text = good;
        const int changes = 1 + static_cast<int>(random() % 3);
        for (int i = 0; i < changes; ++i) {
            char& byte = text[random() % text.size()];
            byte = random() % 4 == 0 ? static_cast<char>(random()) : likely[random() % likely.size()];
        }
        const auto config = parse_config(text, "FILE");
        if (!config.ok()) {
            EXPECT_TRUE(config.error().status == NL_ERROR_BAD_MODEL || config.error().status == NL_ERROR_UNSUPPORTED);
            continue;
        }
        ++accepted;
        const ModelSpec& spec = config->spec;
        EXPECT_GE(spec.num_layers, 1);
        EXPECT_EQ(spec.num_heads % spec.num_kv_heads, 0);
        for (const RopeSpec& rope : spec.ropes) {
            EXPECT_EQ(rope.frequencies.size() * 2, static_cast<size_t>(spec.head_dim));
            for (const float frequency : rope.frequencies) EXPECT_TRUE(std::isfinite(frequency));
        }
        EXPECT_EQ(spec.layers.size(), static_cast<size_t>(spec.num_layers));
        for (const LayerSpec& layer : spec.layers) EXPECT_LT(layer.rope, static_cast<int32_t>(spec.ropes.size()));
        for (const int32_t token : config->end_tokens) EXPECT_LT(token, spec.vocab_size);
    }
    EXPECT_GT(accepted, 100);  // else the checks above saw nothing
}

}  // namespace
}  // namespace nanolith::testing
