// What a probe (batch.h) is about: the layers whose attention it adds up, and how many tokens it gives a number for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/batch.h"
#include "backend/model_spec.h"

namespace nanolith {

// Up to kMostProbedLayers layers, evenly spaced, so that a probe's cost does not grow with the depth. A layer with a
// window does not tell what a row needs of the pages in front of it; the first layer looks for tokens that are alike
// rather than for what the others mean by them; and the last layer's attention is left out of steps that draw nothing
// (forward.h).
constexpr int32_t kMostProbedLayers = 4;
inline std::vector<int32_t> probe_layers(const ModelSpec& spec) {
    std::vector<int32_t> layers;
    for (int32_t layer = spec.num_layers > 2 ? 1 : 0; layer + 1 < spec.num_layers; ++layer)
        if (spec.layers[layer].window == 0) layers.push_back(layer);
    const auto step = (static_cast<int32_t>(layers.size()) + kMostProbedLayers - 1) / kMostProbedLayers;
    for (size_t i = 0; step > 1 && i < layers.size(); ++i) {
        layers.erase(
            layers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
            layers.begin() + static_cast<std::ptrdiff_t>(std::min(i + static_cast<size_t>(step), layers.size())));
    }
    return layers;
}

inline bool is_probed(const ModelSpec& spec, int32_t layer) {
    const std::vector<int32_t> layers = probe_layers(spec);
    return std::ranges::find(layers, layer) != layers.end();
}

// Tokens of the sequence's segments.
inline size_t tokens_of(const Batch& batch, const Sequence& sequence) {
    size_t tokens = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        tokens += static_cast<size_t>(batch.segments[sequence.first_segment + i].length);
    return tokens;
}

// Of all probes of the batch.
inline size_t probed_tokens(const Batch& batch) {
    size_t tokens = 0;
    for (const Probe& probe : batch.probes) tokens += tokens_of(batch, batch.sequences[probe.sequence]);
    return tokens;
}

}  // namespace nanolith
