// The layers of a config at a glance.
#pragma once

#include <string>

#include "model/config.h"
#include "support/model_files.h"

namespace nanolith::testing {

// 'f': everything is seen; 'w': a window; 'n': everything, without RoPE; 'x': a window, without RoPE.
inline std::string layers_of(const Config& config) {
    std::string text;
    for (const LayerSpec& layer : config.spec.layers) {
        const auto& frequencies = config.spec.ropes[static_cast<size_t>(layer.rope)].frequencies;
        text += frequencies[0] == 0 ? (layer.window > 0 ? 'x' : 'n') : (layer.window > 0 ? 'w' : 'f');
    }
    return text;
}

}  // namespace nanolith::testing
