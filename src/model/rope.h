// Rotary position embedding (Su et al., "RoFormer", 2021): the frequencies of a model, scaling included.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "files/json_fields.h"

namespace nanolith {

enum class RopeScaling : uint8_t {
    none,
    linear,  // Chen et al., "Extending Context Window of LLMs via Position Interpolation", 2023
    llama3   // Llama 3.1: long wavelengths are stretched, short ones kept, those between blended
};

struct RopeConfig {
    double theta = 10000.0;
    RopeScaling scaling = RopeScaling::none;
    double factor = 1.0;  // of linear and llama3
    // llama3: wavelengths longer than original_context / low_frequency_factor are divided by factor, those shorter
    // than original_context / high_frequency_factor are kept.
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    double original_context = 8192.0;
};

// RoPE as config.json has it, in either layout: "rope_theta" with "rope_scaling", or "rope_parameters".
// BAD_MODEL names a wrong field; UNSUPPORTED names a kind of scaling that is not computed here.
Result<RopeConfig> read_rope(const JsonFields& config, double default_theta);

// head_dim / 2 angles per position in radians, for pairs (i, i + head_dim / 2).
std::vector<float> rope_frequencies(const RopeConfig& rope, int32_t head_dim);

}  // namespace nanolith
