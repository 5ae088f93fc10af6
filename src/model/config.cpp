#include "model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "files/json_fields.h"
#include "model/layers.h"
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
    SizeField{"max_position_embeddings", &ModelSpec::max_context, kMaxContext},
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
    const bool one_each = architecture.default_num_kv_heads == 0 || fields.is_null("num_key_value_heads");
    NL_ASSIGN(const int64_t kv_heads,
              fields.integer_or("num_key_value_heads", one_each ? spec.num_heads : architecture.default_num_kv_heads, 1,
                                kMaxHeads));
    spec.num_kv_heads = static_cast<int32_t>(kv_heads);
    if (spec.num_heads % spec.num_kv_heads != 0) {
        return fields.wrong("num_key_value_heads",
                            "a divisor of num_attention_heads, which is " + std::to_string(spec.num_heads));
    }
    int64_t fallback = fields.is_null("head_dim") ? 0 : architecture.default_head_dim;
    if (fallback == 0 && fields.find("head_dim") == nullptr) {
        if (spec.hidden_size % spec.num_heads != 0) {
            return fields.wrong("hidden_size", "a multiple of num_attention_heads, which is " +
                                                   std::to_string(spec.num_heads) + ", where head_dim is missing");
        }
        fallback = spec.hidden_size / spec.num_heads;
    }
    NL_ASSIGN(const int64_t head_dim, fields.integer_or("head_dim", fallback, 2, kMaxHeadDim));
    if (head_dim < 2 || head_dim > kMaxHeadDim || head_dim % 2 != 0) {
        const std::string expectation = "an even number from 2 to " + std::to_string(kMaxHeadDim);
        if (fields.find("head_dim") != nullptr) return fields.wrong("head_dim", expectation);
        return fields.wrong("hidden_size", "a head of " + expectation + " elements where head_dim is missing, not " +
                                               std::to_string(head_dim));
    }
    spec.head_dim = static_cast<int32_t>(head_dim);
    return {};
}

// Sets spec.max_context by what is wanted (0: the model's own). Whether LongRoPE's angles for long contexts are in use.
Result<bool> choose_context(const RopeConfig& rope, int64_t wanted, ModelSpec& spec) {
    // Models that are made ready for YaRN by their config alone still tell the context before it.
    if (rope.scaling == RopeScaling::yarn) {
        const double stretched = std::min(rope.original_context * rope.factor, static_cast<double>(kMaxContext));
        spec.max_context = std::max(spec.max_context, static_cast<int32_t>(stretched));
    }
    if (wanted > spec.max_context) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "max_context is ", wanted, ": the model holds at most ",
                    spec.max_context, " tokens");
    }
    const bool has_long = rope.scaling == RopeScaling::longrope && spec.max_context > rope.original_context;
    if (wanted > 0) {
        spec.max_context = static_cast<int32_t>(wanted);
    } else if (has_long) {
        spec.max_context = static_cast<int32_t>(rope.original_context);
    }
    return has_long && spec.max_context > rope.original_context;
}

// Adds a rotation to spec.ropes. `rotated`: elements of a head that turn, the same in all layers.
Result<void> add_rope(const JsonFields& fields, const RopeConfig& rope, int32_t rotated, bool is_long,
                      ModelSpec& spec) {
    const char* const name = fields.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
    const size_t divisors = rope.scaling == RopeScaling::longrope ? static_cast<size_t>(rotated) / 2 : 0;
    if (rotated_elements(rope, spec.head_dim) != rotated || rope.short_divisors.size() != divisors ||
        rope.long_divisors.size() != divisors) {
        return fields.wrong(name, "factors for each of the " + std::to_string(rotated / 2) +
                                      " pairs of a head that turn, in all layers");
    }
    RopeSpec made = make_rope(rope, spec.head_dim, is_long);
    const auto finite = [](float number) { return std::isfinite(number); };
    if (!std::ranges::all_of(made.frequencies, finite) || !std::ranges::all_of(made.magnitudes, finite)) {
        return fields.wrong(fields.find(name) != nullptr ? name : "rope_theta", "finite angles");
    }
    spec.ropes.push_back(std::move(made));
    return {};
}

// The rotation of each layer, and how far it reaches.
Result<void> read_rotation(const JsonFields& fields, int64_t max_context, Config& config) {
    const Architecture& architecture = *config.architecture;
    ModelSpec& spec = config.spec;
    NL_ASSIGN(const ModelRope rope,
              read_rope(fields, {architecture.default_rope_theta, architecture.default_local_rope_theta,
                                 spec.max_context, architecture.phi_rope}));
    NL_ASSIGN(const bool is_long, choose_context(rope.full, max_context, spec));
    const int32_t rotated = rotated_elements(rope.full, spec.head_dim);
    NL_TRY(add_rope(fields, rope.full, rotated, is_long, spec));
    if (rope.windowed) NL_TRY(add_rope(fields, *rope.windowed, rotated, is_long, spec));
    config.head_order = rope_order(rotated, spec.head_dim, architecture.interleaved_rope);
    bool has_none = false;
    NL_TRY(read_layers(fields, architecture, rope.windowed.has_value(), spec, &has_none));
    if (has_none) spec.ropes.push_back({std::vector<float>(static_cast<size_t>(spec.head_dim) / 2, 0.0F), {}});
    return {};
}

// A positive number; 0 where the field is null, or missing and the family has no default.
Result<float> read_cap(const JsonFields& fields, const char* name, double fallback) {
    constexpr double kMaxCap = 1e6;
    NL_ASSIGN(const double cap, fields.find(name) == nullptr ? Result<double>(fields.is_null(name) ? 0.0 : fallback)
                                                             : fields.positive_number(name, kMaxCap));
    return static_cast<float>(cap);
}

Result<void> read_scales(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec) {
    constexpr double kMaxScalar = 1e6;
    double divisor = spec.head_dim;
    if (architecture.gemma) {
        NL_ASSIGN(divisor, fields.positive_number_or("query_pre_attn_scalar", 256.0, kMaxScalar));
        if (architecture.attention_softcap) {
            NL_ASSIGN(spec.attention_softcap,
                      read_cap(fields, "attn_logit_softcapping", architecture.default_attention_softcap));
        }
        NL_ASSIGN(spec.logit_softcap, read_cap(fields, "final_logit_softcapping", architecture.default_logit_softcap));
        spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_size));
        spec.norm_offset = 1.0F;
    }
    spec.attention_scale = static_cast<float>(1.0 / std::sqrt(divisor));
    return {};
}

Result<void> read_activation(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec) {
    NL_ASSIGN(const std::string name, fields.string_or(architecture.activation_field, architecture.default_activation));
    if (name == "silu") {
        spec.activation = Activation::silu;
    } else if (name == "gelu_pytorch_tanh") {
        spec.activation = Activation::gelu_tanh;
    } else {
        return fields.wrong(architecture.activation_field, "\"silu\" or \"gelu_pytorch_tanh\"", NL_ERROR_UNSUPPORTED);
    }
    return {};
}

Result<bool> read_presence(const JsonFields& fields, Presence presence, const char* name) {
    if (presence == Presence::by_config) return fields.boolean_or(name, false);
    return presence == Presence::always;
}

// What the forward pass does not compute must not load, or it would give wrong answers.
Result<void> refuse_unsupported(const JsonFields& fields) {
    NL_ASSIGN(const bool bidirectional, fields.boolean_or("use_bidirectional_attention", false));
    if (bidirectional) return fields.wrong("use_bidirectional_attention", "false", NL_ERROR_UNSUPPORTED);
    return {};
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

Result<Config> parse_config(std::string_view text, const std::string& where, int64_t max_context) {
    NL_ASSIGN(const Json json, parse_json_object(text, where));
    return read_config(json, where, max_context);
}

Result<Config> read_config(const Json& json, const std::string& where, int64_t max_context) {
    const JsonFields fields(json, where);
    Config config;
    NL_ASSIGN(config.architecture, read_architecture(fields));
    const Architecture& architecture = *config.architecture;
    config.tensors = architecture.tensors;
    ModelSpec& spec = config.spec;
    NL_TRY(read_sizes(fields, spec));
    NL_TRY(read_heads(fields, architecture, spec));
    NL_ASSIGN(const double epsilon, fields.positive_number_or("rms_norm_eps", architecture.default_norm_epsilon, 1.0));
    spec.norm_epsilon = static_cast<float>(epsilon);
    NL_TRY(read_scales(fields, architecture, spec));
    NL_TRY(read_activation(fields, architecture, spec));
    NL_TRY(read_rotation(fields, max_context, config));
    NL_ASSIGN(config.has_experts, read_experts(fields, architecture, spec));
    NL_ASSIGN(config.quantization, read_quantization(fields));
    NL_ASSIGN(config.tied_head, fields.boolean_or("tie_word_embeddings", architecture.default_tied_head));
    NL_ASSIGN(config.attention_bias,
              read_presence(fields, architecture.attention_bias, architecture.attention_bias_field));
    NL_ASSIGN(config.mlp_bias, read_presence(fields, architecture.mlp_bias, architecture.mlp_bias_field));
    NL_TRY(refuse_unsupported(fields));
    NL_ASSIGN(config.end_tokens, read_end_tokens(fields, spec.vocab_size));
    return config;
}

Result<std::vector<int32_t>> parse_end_tokens(std::string_view text, const std::string& where, int32_t vocab_size) {
    NL_ASSIGN(const Json json, parse_json_object(text, where));
    return read_end_tokens(JsonFields(json, where), vocab_size);
}

}  // namespace nanolith
