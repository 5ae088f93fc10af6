#include "model/config.h"

#include <array>
#include <cmath>
#include <span>

#include "files/json_fields.h"
#include "model/rope.h"

namespace nanolith {
namespace {

// A required size and the most that is believed. The limits are far above any model and keep products of two sizes
// inside int64_t.
struct SizeField {
    const char* name;
    int32_t ModelSpec::*member;
    int64_t max;
};
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 1 << 12;
constexpr std::array kSizeFields = {
    SizeField{"vocab_size", &ModelSpec::vocab_size, 1 << 24},
    SizeField{"hidden_size", &ModelSpec::hidden_size, 1 << 20},
    SizeField{"intermediate_size", &ModelSpec::intermediate_size, 1 << 24},
    SizeField{"num_hidden_layers", &ModelSpec::num_layers, 1 << 12},
    SizeField{"num_attention_heads", &ModelSpec::num_heads, kMaxHeads},
    SizeField{"max_position_embeddings", &ModelSpec::max_context, 1 << 30},
};

Result<const Architecture*> read_architecture(const JsonFields& fields) {
    const Json* value = fields.find("architectures");
    const auto* names = value != nullptr ? value->as<Json::Array>() : nullptr;
    const auto* name = names != nullptr && !names->empty() ? names->front().as<std::string>() : nullptr;
    if (name == nullptr) {
        return fields.wrong("architectures", "a list with the name of an architecture");
    }
    const Architecture* architecture = find_architecture(*name);
    if (architecture == nullptr) {
        return fields.wrong("architectures", "one of " + architecture_names(), NL_ERROR_UNSUPPORTED);
    }
    return architecture;
}

Result<void> read_sizes(const JsonFields& fields, ModelSpec& spec) {
    for (const SizeField& field : kSizeFields) {
        NL_ASSIGN(const int64_t size, fields.integer(field.name, 1, field.max));
        spec.*field.member = static_cast<int32_t>(size);
    }
    return {};
}

Result<void> read_heads(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec) {
    NL_ASSIGN(const int64_t kv_heads, fields.integer_or("num_key_value_heads", spec.num_heads, 1, kMaxHeads));
    spec.num_kv_heads = static_cast<int32_t>(kv_heads);
    if (spec.num_heads % spec.num_kv_heads != 0) {
        return fields.wrong("num_key_value_heads",
                            "a divisor of num_attention_heads, which is " + std::to_string(spec.num_heads));
    }
    int64_t fallback = architecture.default_head_dim;
    if (fallback == 0 && fields.find("head_dim") == nullptr) {
        if (spec.hidden_size % spec.num_heads != 0) {
            return fields.wrong("hidden_size", "a multiple of num_attention_heads, which is " +
                                                   std::to_string(spec.num_heads) + ", where head_dim is missing");
        }
        fallback = spec.hidden_size / spec.num_heads;
    }
    NL_ASSIGN(const int64_t head_dim, fields.integer_or("head_dim", fallback, 2, kMaxHeadDim));
    if (head_dim < 2 || head_dim > kMaxHeadDim || head_dim % 2 != 0) {
        return fields.wrong("head_dim", "an even number from 2 to " + std::to_string(kMaxHeadDim) + " (it is " +
                                            std::to_string(head_dim) + ")");
    }
    spec.head_dim = static_cast<int32_t>(head_dim);
    spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
    return {};
}

// Layers whose attention sees a window only: told by "layer_types", in older files by two fields together.
Result<void> refuse_sliding_window(const JsonFields& fields, const ModelSpec& spec) {
    if (const Json* value = fields.find("layer_types")) {
        const auto* types = value->as<Json::Array>();
        if (types == nullptr) return fields.wrong("layer_types", "a list of strings");
        for (const Json& type : *types) {
            const auto* name = type.as<std::string>();
            if (name == nullptr || *name != "full_attention") {
                return fields.wrong("layer_types", "\"full_attention\" for every layer", NL_ERROR_UNSUPPORTED);
            }
        }
        return {};
    }
    NL_ASSIGN(const bool in_use, fields.boolean_or("use_sliding_window", false));
    if (!in_use) return {};
    // Layers from this one on have a window.
    NL_ASSIGN(const int64_t first, fields.integer_or("max_window_layers", 0, 0, INT32_MAX));
    if (first < spec.num_layers) return fields.wrong("use_sliding_window", "false", NL_ERROR_UNSUPPORTED);
    return {};
}

// What the forward pass does not compute must not load, or it would give wrong answers.
Result<void> refuse_unsupported(const JsonFields& fields, const ModelSpec& spec) {
    if (fields.find("quantization_config") != nullptr) {
        return fields.wrong("quantization_config", "none: weights in float32, float16 or bfloat16",
                            NL_ERROR_UNSUPPORTED);
    }
    NL_ASSIGN(const std::string activation, fields.string_or("hidden_act", "silu"));
    if (activation != "silu") return fields.wrong("hidden_act", "\"silu\"", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const bool mlp_bias, fields.boolean_or("mlp_bias", false));
    if (mlp_bias) return fields.wrong("mlp_bias", "false", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const double partial, fields.positive_number_or("partial_rotary_factor", 1.0, 1.0));
    if (partial != 1.0) return fields.wrong("partial_rotary_factor", "1", NL_ERROR_UNSUPPORTED);
    return refuse_sliding_window(fields, spec);
}

// A token, or a list of tokens; nothing where the field is missing.
Result<std::vector<int32_t>> read_end_tokens(const JsonFields& fields, int32_t vocab_size) {
    constexpr const char* kName = "eos_token_id";
    const Json* value = fields.find(kName);
    if (value == nullptr) return std::vector<int32_t>();
    const auto* list = value->as<Json::Array>();
    std::vector<int32_t> tokens;
    for (const Json& item : list != nullptr ? std::span<const Json>(*list) : std::span(value, 1)) {
        const auto* token = item.as<uint64_t>();
        if (token == nullptr || *token >= static_cast<uint64_t>(vocab_size)) {
            return fields.wrong(kName, "a token from 0 to " + std::to_string(vocab_size - 1) + ", or a list of them");
        }
        tokens.push_back(static_cast<int32_t>(*token));
    }
    return tokens;
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& where) {
    NL_ASSIGN(const Json json, parse_json_object(text, where));
    const JsonFields fields(json, where);
    Config config;
    NL_ASSIGN(config.architecture, read_architecture(fields));
    const Architecture& architecture = *config.architecture;
    NL_TRY(read_sizes(fields, config.spec));
    NL_TRY(read_heads(fields, architecture, config.spec));
    NL_ASSIGN(const double epsilon, fields.positive_number_or("rms_norm_eps", architecture.default_norm_epsilon, 1.0));
    config.spec.norm_epsilon = static_cast<float>(epsilon);
    NL_ASSIGN(const RopeConfig rope, read_rope(fields, architecture.default_rope_theta));
    config.spec.rope_frequencies = rope_frequencies(rope, config.spec.head_dim);
    NL_ASSIGN(config.tied_head, fields.boolean_or("tie_word_embeddings", architecture.default_tied_head));
    NL_ASSIGN(const bool attention_bias, fields.boolean_or("attention_bias", false));
    config.qkv_bias =
        architecture.qkv_bias == Presence::always || (architecture.qkv_bias == Presence::by_config && attention_bias);
    NL_TRY(refuse_unsupported(fields, config.spec));
    NL_ASSIGN(config.end_tokens, read_end_tokens(fields, config.spec.vocab_size));
    return config;
}

Result<std::vector<int32_t>> parse_end_tokens(std::string_view text, const std::string& where, int32_t vocab_size) {
    NL_ASSIGN(const Json json, parse_json_object(text, where));
    return read_end_tokens(JsonFields(json, where), vocab_size);
}

}  // namespace nanolith
