// Configs from the fields of a config.json, and their layers at a glance.
#pragma once

#include <string>

#include "model/config.h"
#include "support/model_files.h"

namespace nanolith::testing {

inline Result<Config> parse(const ConfigFields& fields, int64_t max_context = 0) {
    return parse_config(json_text(fields), "FILE", max_context);
}

// 'f': everything is seen; 'w': a window; 'n': everything, without RoPE; 'x': a window, without RoPE.
inline std::string layers_of(const Config& config) {
    std::string text;
    for (const LayerSpec& layer : config.spec.layers) {
        const auto& frequencies = config.spec.ropes[layer.rope].frequencies;
        text += frequencies[0] == 0 ? (layer.window > 0 ? 'x' : 'n') : (layer.window > 0 ? 'w' : 'f');
    }
    return text;
}
// The same of a config that is parsed first, or why it can't be.
inline std::string layers_of(const ConfigFields& fields) {
    const auto config = parse(fields);
    return config.ok() ? layers_of(*config) : config.error().message;
}

}  // namespace nanolith::testing
