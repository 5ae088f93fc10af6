// Known models' shapes, as plain numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace nanolith::bench {

// The experts of a layer, where it has any.
struct ShapeExperts {
    int32_t count = 0;  // 0: none
    int32_t top_k = 0;  // experts that a token goes through
    int32_t intermediate_size = 0;
    bool normalized = false;  // the weights of the chosen experts are divided by their sum
};

struct Shape {
    const char* name;
    int32_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
    bool tied, qk_norm;
    ShapeExperts experts = {};  // in place of every layer's MLP where it has any
};

inline constexpr Shape kShapes[] = {
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, true, true},
    {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, true, false},
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, false, false},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936, false, true, {128, 8, 768, true}},
};

// The shape of this name, or null.
inline const Shape* find_shape(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& shape) { return name == shape.name; });
    return found != std::end(kShapes) ? found : nullptr;
}

}  // namespace nanolith::bench
