// Rotary position embedding (Su et al., "RoFormer", 2021): what config.json says of it, and the angles of a model,
// scaling included.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/model_spec.h"
#include "base/result.h"
#include "files/json_fields.h"

namespace nanolith {

inline constexpr int64_t kMaxContext = int64_t{1} << 30;  // tokens: the longest context that is believed

enum class RopeScaling : uint8_t {
    none,
    linear,   // Chen et al., "Extending Context Window of LLMs via Position Interpolation", 2023
    llama3,   // Llama 3.1: long wavelengths are stretched, short ones kept, those between blended
    yarn,     // Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023
    longrope  // Ding et al., "LongRoPE", 2024: a divisor for each pair
};

struct RopeConfig {
    double theta = 10000.0;
    double rotated_share = 1.0;  // of a head's elements, the first ones
    RopeScaling scaling = RopeScaling::none;
    double factor = 1.0;  // of linear, llama3 and yarn
    // llama3: wavelengths longer than original_context / low_frequency_factor are divided by factor, those shorter
    // than original_context / high_frequency_factor are kept.
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    double original_context = 8192.0;
    // yarn: pairs that turn more than beta_fast times over the original context are kept, those that turn less than
    // beta_slow times are divided by factor; the border falls on whole pairs where `truncated`.
    double beta_fast = 32.0;
    double beta_slow = 1.0;
    bool truncated = true;
    // yarn and longrope: what queries and keys are multiplied by.
    double magnitude = 1.0;
    // longrope: divisors of the frequencies of contexts up to the original one and of longer ones.
    std::vector<double> short_divisors;
    std::vector<double> long_divisors;
};

// RoPE of the layers that see everything and, where it differs, of those that have a window.
struct ModelRope {
    RopeConfig full;
    std::optional<RopeConfig> windowed;
};

// What the fields that are left out mean. `max_context` is the config's.
struct RopeDefaults {
    double theta = 10000.0;
    double local_theta = 0;  // of layers with a window; 0: they have what the others have
    int64_t max_context = 0;
    bool is_phi = false;  // the family reads "partial_rotary_factor", and the context before its extension elsewhere
};

// RoPE as config.json has it, in any layout: "rope_theta" with "rope_scaling" and perhaps "rope_local_base_freq", or
// "rope_parameters", for all layers or by their type. BAD_MODEL names a wrong field; UNSUPPORTED names a kind of
// scaling that is not computed here.
Result<ModelRope> read_rope(const JsonFields& config, const RopeDefaults& defaults);

// Elements of a head that are rotated; even.
int32_t rotated_elements(const RopeConfig& rope, int32_t head_dim);

// For pairs (i, i + head_dim / 2) with the rotated ones first (see rope_order). `long_context` chooses among longrope's
// divisors, of which there must be one for each rotated pair.
RopeSpec make_rope(const RopeConfig& rope, int32_t head_dim, bool long_context);

// The checkpoint's elements of a head in the order that pairs (i, i + head_dim / 2) need: pairs of neighbours where
// `interleaved`, else of halves of the rotated elements; those that are not rotated after them. Empty where they lie
// so already.
std::vector<int32_t> rope_order(int32_t rotated, int32_t head_dim, bool interleaved);

}  // namespace nanolith
