#include "model/rope.h"

#include <cmath>
#include <numbers>
#include <string>

namespace nanolith {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxContext = int64_t{1} << 30;

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

// `fields` is the object that carries the type and the type's parameters.
Result<RopeConfig> read_scaling(const JsonFields& fields, RopeConfig rope) {
    NL_ASSIGN(const double partial, fields.positive_number_or("partial_rotary_factor", 1.0, 1.0));
    if (partial != 1.0) return fields.wrong("partial_rotary_factor", "1", NL_ERROR_UNSUPPORTED);
    const char* const type_field = fields.find("rope_type") != nullptr ? "rope_type" : "type";
    NL_ASSIGN(const std::string type, fields.string_or(type_field, "default"));
    if (type == "default") return rope;
    if (type == "llama3") return read_llama3(fields, rope);
    if (type == "linear") {
        rope.scaling = RopeScaling::linear;
        NL_ASSIGN(rope.factor, fields.positive_number("factor", kMaxFactor));
        return rope;
    }
    return fields.wrong(type_field, "\"default\", \"linear\" or \"llama3\"", NL_ERROR_UNSUPPORTED);
}

double llama3_frequency(const RopeConfig& rope, double frequency) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    const double turns = rope.original_context / wavelength;  // over the original context
    if (turns < rope.low_frequency_factor) return frequency / rope.factor;
    if (turns > rope.high_frequency_factor) return frequency;
    const double keep = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
    return (1.0 - keep) * frequency / rope.factor + keep * frequency;
}

}  // namespace

Result<RopeConfig> read_rope(const JsonFields& config, double default_theta) {
    RopeConfig rope;
    NL_ASSIGN(rope.theta, config.positive_number_or("rope_theta", default_theta, kMaxTheta));
    // Where a config has both objects the older one counts, as in Transformers.
    const char* const name = config.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
    NL_ASSIGN(const auto fields, config.object(name));
    if (!fields) return rope;
    if (fields->find("full_attention") != nullptr || fields->find("sliding_attention") != nullptr) {
        return config.wrong(name, "one set of parameters for all layers", NL_ERROR_UNSUPPORTED);
    }
    NL_ASSIGN(rope.theta, fields->positive_number_or("rope_theta", rope.theta, kMaxTheta));
    return read_scaling(*fields, rope);
}

std::vector<float> rope_frequencies(const RopeConfig& rope, int32_t head_dim) {
    std::vector<float> frequencies(static_cast<size_t>(head_dim) / 2);
    for (size_t i = 0; i < frequencies.size(); ++i) {
        double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / head_dim);
        if (rope.scaling == RopeScaling::linear) frequency /= rope.factor;
        if (rope.scaling == RopeScaling::llama3) frequency = llama3_frequency(rope, frequency);
        frequencies[i] = static_cast<float>(frequency);
    }
    return frequencies;
}

}  // namespace nanolith
