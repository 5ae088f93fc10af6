#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace nanolith {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr double kTwoPi = 2.0 * std::numbers::pi;

// The context before its extension: in config.json's own object, in the scaling's, or the model's context.
Result<double> read_original_context(const JsonFields& fields, const JsonFields& config, const RopeDefaults& defaults) {
    constexpr const char* kName = "original_max_position_embeddings";
    NL_ASSIGN(const int64_t outside, config.integer_or(kName, 0, 1, kMaxContext));
    NL_ASSIGN(const int64_t inside, fields.integer_or(kName, 0, 1, kMaxContext));
    if (inside > 0 && outside > 0 && inside != outside && !defaults.is_phi)
        return fields.wrong(kName, std::to_string(outside) + ", as it is outside of this object", NL_ERROR_UNSUPPORTED);
    // Where Phi has both, the reference takes the one outside.
    return static_cast<double>(outside > 0 ? outside : inside > 0 ? inside : defaults.max_context);
}

Result<RopeConfig> read_llama3(const JsonFields& fields, RopeConfig rope) {
    rope.scaling = RopeScaling::llama3;
    NL_ASSIGN(rope.factor, fields.positive_number("factor", kMaxFactor));
    NL_ASSIGN(rope.low_frequency_factor, fields.positive_number("low_freq_factor", kMaxFactor));
    NL_ASSIGN(rope.high_frequency_factor, fields.positive_number("high_freq_factor", kMaxFactor));
    NL_ASSIGN(const int64_t context, fields.integer("original_max_position_embeddings", 1, kMaxContext));
    rope.original_context = static_cast<double>(context);
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
        return fields.wrong("high_freq_factor", "more than low_freq_factor");
    }
    return rope;
}

// YaRN's factor for attention.
double yarn_magnitude(double factor, double slope) {
    return factor <= 1.0 ? 1.0 : 0.1 * slope * std::log(factor) + 1.0;
}

Result<RopeConfig> read_yarn(const JsonFields& fields, RopeConfig rope, int64_t max_context) {
    rope.scaling = RopeScaling::yarn;
    if (rope.theta <= 1.0) return fields.wrong("rope_theta", "more than 1, for YaRN");
    const double stretch = static_cast<double>(max_context) / rope.original_context;
    NL_ASSIGN(rope.factor, fields.positive_number_or("factor", stretch, kMaxFactor));
    NL_ASSIGN(rope.beta_fast, fields.positive_number_or("beta_fast", 32.0, kMaxFactor));
    NL_ASSIGN(rope.beta_slow, fields.positive_number_or("beta_slow", 1.0, kMaxFactor));
    NL_ASSIGN(rope.truncated, fields.boolean_or("truncate", true));
    rope.magnitude = yarn_magnitude(rope.factor, 1.0);
    if (fields.find("mscale") != nullptr && fields.find("mscale_all_dim") != nullptr) {
        NL_ASSIGN(const double above, fields.number("mscale", 0.0, kMaxFactor));
        NL_ASSIGN(const double below, fields.number("mscale_all_dim", 0.0, kMaxFactor));
        if (above > 0 && below > 0) {
            rope.magnitude = yarn_magnitude(rope.factor, above) / yarn_magnitude(rope.factor, below);
        }
    }
    NL_ASSIGN(rope.magnitude, fields.positive_number_or("attention_factor", rope.magnitude, kMaxFactor));
    return rope;
}

Result<RopeConfig> read_longrope(const JsonFields& fields, RopeConfig rope, int64_t max_context) {
    rope.scaling = RopeScaling::longrope;
    NL_ASSIGN(rope.short_divisors, fields.positive_numbers("short_factor", kMaxFactor));
    NL_ASSIGN(rope.long_divisors, fields.positive_numbers("long_factor", kMaxFactor));
    const double stretch = static_cast<double>(max_context) / rope.original_context;
    NL_ASSIGN(rope.factor, fields.positive_number_or("factor", stretch, kMaxFactor));
    if (rope.factor > 1.0 && rope.original_context > 1.0) {
        rope.magnitude = std::sqrt(1.0 + std::log(rope.factor) / std::log(rope.original_context));
    }
    NL_ASSIGN(rope.magnitude, fields.positive_number_or("attention_factor", rope.magnitude, kMaxFactor));
    return rope;
}

// The share of a head's elements that turn. A family that does not read it ignores it as long as nothing is scaled;
// with scaling its reference would turn fewer than its attention takes.
Result<double> read_share(const JsonFields& fields, const JsonFields& config, bool reads, bool scales) {
    constexpr const char* kName = "partial_rotary_factor";
    const JsonFields& place = fields.find(kName) != nullptr ? fields : config;
    NL_ASSIGN(const double share, place.positive_number_or(kName, 1.0, 1.0));
    if (reads || share == 1.0) return share;
    if (!scales) return 1.0;
    return place.wrong(kName, "1 where RoPE is scaled, in this family", NL_ERROR_UNSUPPORTED);
}

// `fields` is the object that carries the type and the type's parameters.
Result<RopeConfig> read_scaling(const JsonFields& fields, const JsonFields& config, RopeConfig rope,
                                const RopeDefaults& defaults) {
    const int64_t max_context = defaults.max_context;
    NL_ASSIGN(rope.theta, fields.positive_number_or("rope_theta", rope.theta, kMaxTheta));
    const char* const type_field = fields.find("rope_type") != nullptr ? "rope_type" : "type";
    NL_ASSIGN(const std::string type, fields.string_or(type_field, "default"));
    NL_ASSIGN(rope.rotated_share, read_share(fields, config, defaults.is_phi, type != "default"));
    if (type == "default") return rope;
    if (type == "llama3") return read_llama3(fields, rope);
    if (type == "linear") {
        rope.scaling = RopeScaling::linear;
        NL_ASSIGN(rope.factor, fields.positive_number("factor", kMaxFactor));
        return rope;
    }
    NL_ASSIGN(rope.original_context, read_original_context(fields, config, defaults));
    // Early Phi-3 models call longrope "su" or "yarn".
    if (type == "longrope" || type == "su" || (type == "yarn" && fields.find("short_factor") != nullptr)) {
        return read_longrope(fields, std::move(rope), max_context);
    }
    if (type == "yarn") return read_yarn(fields, std::move(rope), max_context);
    return fields.wrong(type_field, "\"default\", \"linear\", \"llama3\", \"yarn\" or \"longrope\"",
                        NL_ERROR_UNSUPPORTED);
}

// One object for each type of layer.
Result<ModelRope> read_by_type(const JsonFields& types, const JsonFields& config, const RopeConfig& plain,
                               const RopeDefaults& defaults) {
    ModelRope rope{plain, plain};
    if (defaults.local_theta > 0) rope.windowed->theta = defaults.local_theta;
    NL_ASSIGN(const auto full, types.object("full_attention"));
    NL_ASSIGN(const auto windowed, types.object("sliding_attention"));
    if (full) {
        NL_ASSIGN(rope.full, read_scaling(*full, config, rope.full, defaults));
    }
    if (windowed) {
        NL_ASSIGN(rope.windowed, read_scaling(*windowed, config, *rope.windowed, defaults));
    }
    return rope;
}

double llama3_frequency(const RopeConfig& rope, double frequency) {
    const double wavelength = kTwoPi / frequency;
    const double turns = rope.original_context / wavelength;  // over the original context
    if (turns < rope.low_frequency_factor) return frequency / rope.factor;
    if (turns > rope.high_frequency_factor) return frequency;
    const double keep = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
    return (1.0 - keep) * frequency / rope.factor + keep * frequency;
}

// The pairs between which YaRN blends.
struct YarnRange {
    double low;
    double high;
};

YarnRange yarn_range(const RopeConfig& rope, int32_t rotated) {
    // The pair, as a real number, that turns so many times over the original context.
    const auto pair_of = [&](double turns) {
        return rotated * std::log(rope.original_context / (turns * kTwoPi)) / (2.0 * std::log(rope.theta));
    };
    double low = pair_of(rope.beta_fast);
    double high = pair_of(rope.beta_slow);
    if (rope.truncated) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rotated - 1));
    if (low == high) high += 0.001;
    return {low, high};
}

double scaled_frequency(const RopeConfig& rope, const YarnRange& range, size_t pair, double frequency,
                        bool long_context) {
    switch (rope.scaling) {
        case RopeScaling::none:
            break;
        case RopeScaling::linear:
            return frequency / rope.factor;
        case RopeScaling::llama3:
            return llama3_frequency(rope, frequency);
        case RopeScaling::yarn: {
            const double stretched =
                std::clamp((static_cast<double>(pair) - range.low) / (range.high - range.low), 0.0, 1.0);
            return stretched * frequency / rope.factor + (1.0 - stretched) * frequency;
        }
        case RopeScaling::longrope:
            return frequency / (long_context ? rope.long_divisors : rope.short_divisors)[pair];
    }
    return frequency;
}

}  // namespace

Result<ModelRope> read_rope(const JsonFields& config, const RopeDefaults& defaults) {
    RopeConfig plain;
    NL_ASSIGN(plain.theta, config.positive_number_or("rope_theta", defaults.theta, kMaxTheta));
    // Where a config has both objects the older one counts, as in Transformers.
    const char* const name = config.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
    NL_ASSIGN(const auto fields, config.object(name));
    // A second object of the older name would be mixed into the one for layers that see everything.
    if (defaults.local_theta > 0 && config.find("rope_scaling") != nullptr && config.find("rope_parameters") != nullptr)
        return config.wrong("rope_scaling", "null where there are rope_parameters", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(plain.rotated_share, read_share(config, config, defaults.is_phi, false));
    if (fields && (fields->find("full_attention") != nullptr || fields->find("sliding_attention") != nullptr)) {
        return read_by_type(*fields, config, plain, defaults);
    }
    ModelRope rope{plain, std::nullopt};
    if (defaults.local_theta > 0) {
        // Where layers differ the reference reads the newer name alone, and would not scale.
        if (fields && fields->find("rope_type") == nullptr && fields->find("type") != nullptr)
            return fields->wrong("rope_type", "a kind of scaling by this name instead of type", NL_ERROR_UNSUPPORTED);
        // Scaling is of the layers that see far.
        rope.windowed = plain;
        NL_ASSIGN(rope.windowed->theta,
                  config.positive_number_or("rope_local_base_freq", defaults.local_theta, kMaxTheta));
    }
    if (fields) {
        NL_ASSIGN(rope.full, read_scaling(*fields, config, plain, defaults));
    }
    return rope;
}

int32_t rotated_elements(const RopeConfig& rope, int32_t head_dim) {
    return static_cast<int32_t>(head_dim * rope.rotated_share) / 2 * 2;
}

RopeSpec make_rope(const RopeConfig& rope, int32_t head_dim, bool long_context) {
    const auto pairs = static_cast<size_t>(head_dim) / 2;
    const int32_t rotated = rotated_elements(rope, head_dim);
    const YarnRange range = rope.scaling == RopeScaling::yarn ? yarn_range(rope, rotated) : YarnRange{};
    RopeSpec spec{std::vector<float>(pairs, 0.0F), {}};
    if (rope.magnitude != 1.0) spec.magnitudes.assign(pairs, 1.0F);
    for (size_t i = 0; i < static_cast<size_t>(rotated) / 2; ++i) {
        const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / rotated);
        spec.frequencies[i] = static_cast<float>(scaled_frequency(rope, range, i, frequency, long_context));
        if (rope.magnitude != 1.0) spec.magnitudes[i] = static_cast<float>(rope.magnitude);
    }
    return spec;
}

std::vector<int32_t> rope_order(int32_t rotated, int32_t head_dim, bool interleaved) {
    if (rotated == head_dim && !interleaved) return {};
    const int32_t half = head_dim / 2;
    const int32_t pairs = rotated / 2;
    std::vector<int32_t> order(head_dim);
    for (int32_t i = 0; i < half; ++i) {
        const bool turns = i < pairs;
        int32_t first = interleaved ? 2 * i : i;
        int32_t second = interleaved ? 2 * i + 1 : pairs + i;
        if (!turns) {
            first = pairs + i;
            second = half + i;
        }
        order[i] = first;
        order[half + i] = second;
    }
    return order;
}

}  // namespace nanolith
