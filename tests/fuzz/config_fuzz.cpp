// Fuzzes config.json and generation_config.json: the input is both, with a NUL byte between them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/config.h"

namespace {

// Aborts where a config that was accepted has what the forward pass could not take.
void check(const nanolith::Config& config) {
    const nanolith::ModelSpec& spec = config.spec;
    const auto require = [](bool holds) {
        if (!holds) abort();
    };
    require(spec.num_layers > 0 && spec.layers.size() == static_cast<size_t>(spec.num_layers));
    require(spec.head_dim >= 2 && spec.head_dim % 2 == 0);
    require(spec.num_kv_heads > 0 && spec.num_heads % spec.num_kv_heads == 0);
    require(spec.hidden_size > 0 && spec.vocab_size > 0 && spec.max_context > 0);
    require(std::isfinite(spec.attention_scale) && spec.attention_scale > 0);
    require(config.has_experts.size() == spec.layers.size());
    for (const nanolith::LayerSpec& layer : spec.layers) {
        require(layer.window >= 0 && layer.rope >= 0 && static_cast<size_t>(layer.rope) < spec.ropes.size());
    }
    for (const nanolith::RopeSpec& rope : spec.ropes) {
        require(rope.frequencies.size() == static_cast<size_t>(spec.head_dim) / 2);
        for (const float frequency : rope.frequencies) require(std::isfinite(frequency));
    }
    for (const int32_t token : config.end_tokens) require(token >= 0 && token < spec.vocab_size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto split = static_cast<size_t>(std::find(data, data + size, 0) - data);
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto config = nanolith::parse_config(text.substr(0, split), "config.json");
    if (config.ok()) check(*config);
    const int32_t vocab_size = config.ok() ? config->spec.vocab_size : 1000;
    const auto ends =
        nanolith::parse_end_tokens(text.substr(std::min(split + 1, size)), "generation_config.json", vocab_size);
    if (!ends.ok()) return 0;
    for (const int32_t token : *ends) {
        if (token < 0 || token >= vocab_size) abort();
    }
    return 0;
}
