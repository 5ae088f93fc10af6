#include "model/layers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nanolith {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;
constexpr int64_t kMaxExperts = 1 << 12;
constexpr int64_t kMaxInner = 1 << 24;

std::string entries(const ModelSpec& spec) {
    return std::to_string(spec.num_layers) + " entries, one for each layer";
}

// Whether each layer has RoPE: "no_rope_layers" has a 1 where it does.
Result<std::vector<bool>> read_rotated(const JsonFields& fields, const Architecture& architecture,
                                       const ModelSpec& spec) {
    const auto count = static_cast<size_t>(spec.num_layers);
    std::vector<bool> rotated(count, true);
    if (!architecture.rope_by_layer) return rotated;
    NL_ASSIGN(const auto flags, fields.integers_or_none("no_rope_layers", 0, 1));
    if (!flags.empty()) {
        if (flags.size() < count) return fields.wrong("no_rope_layers", "at least " + entries(spec));
        for (size_t i = 0; i < count; ++i) rotated[i] = flags[i] == 1;
        return rotated;
    }
    NL_ASSIGN(const int64_t interval, fields.integer_or("no_rope_layer_interval", 4, 1, INT32_MAX));
    for (size_t i = 0; i < count; ++i) rotated[i] = (static_cast<int64_t>(i) + 1) % interval != 0;
    return rotated;
}

// "layer_types"; empty where it is missing.
Result<std::vector<bool>> read_layer_types(const JsonFields& fields, const Architecture& architecture,
                                           const ModelSpec& spec) {
    constexpr const char* kName = "layer_types";
    std::vector<bool> windowed;
    const Json* value = fields.find(kName);
    if (value == nullptr) return windowed;
    const auto* types = value->as<Json::Array>();
    if (types == nullptr || types->size() != static_cast<size_t>(spec.num_layers)) {
        return fields.wrong(kName, entries(spec));
    }
    const bool takes_windows = architecture.windows != WindowRule::never;
    for (const Json& type : *types) {
        const auto* name = type.as<std::string>();
        const bool is_windowed = name != nullptr && *name == "sliding_attention";
        if (name == nullptr || (is_windowed ? !takes_windows : *name != "full_attention")) {
            return fields.wrong(kName,
                                takes_windows ? "\"full_attention\" or \"sliding_attention\" for every layer"
                                              : "\"full_attention\" for every layer",
                                NL_ERROR_UNSUPPORTED);
        }
        windowed.push_back(is_windowed);
    }
    return windowed;
}

// Where "use_sliding_window" takes the window away, no layer can have one.
Result<void> check_switch(const JsonFields& fields, const Architecture& architecture,
                          const std::vector<bool>& windowed) {
    if (architecture.windows != WindowRule::from_layer || std::ranges::find(windowed, true) == windowed.end())
        return {};
    NL_ASSIGN(const bool in_use, fields.boolean_or("use_sliding_window", false));
    if (in_use) return {};
    return fields.wrong("use_sliding_window", "true where layer_types has \"sliding_attention\"", NL_ERROR_UNSUPPORTED);
}

// Which layers have a window by the family's rule.
Result<std::vector<bool>> rule_of_windows(const JsonFields& fields, const Architecture& architecture,
                                          const std::vector<bool>& rotated) {
    std::vector<bool> windowed(rotated.size(), false);
    NL_ASSIGN(const bool in_use, fields.boolean_or("use_sliding_window", false));
    NL_ASSIGN(const int64_t first, fields.integer_or("max_window_layers", 28, 0, INT32_MAX));
    NL_ASSIGN(const int64_t pattern, fields.integer_or("sliding_window_pattern", 6, 1, INT32_MAX));
    for (size_t i = 0; i < windowed.size(); ++i) {
        const auto layer = static_cast<int64_t>(i);
        switch (architecture.windows) {
            case WindowRule::never:
                break;
            case WindowRule::every_layer:
                windowed[i] = true;
                break;
            case WindowRule::switched:
                windowed[i] = in_use;
                break;
            case WindowRule::from_layer:
                windowed[i] = in_use && layer >= first;
                break;
            case WindowRule::without_rope:
                windowed[i] = in_use && !rotated[i];
                break;
            case WindowRule::even_layers:
                windowed[i] = layer % 2 == 0;
                break;
            case WindowRule::all_but_every_nth:
                windowed[i] = (layer + 1) % pattern != 0;
                break;
        }
    }
    return windowed;
}

}  // namespace

Result<void> read_layers(const JsonFields& fields, const Architecture& architecture, bool has_local, ModelSpec& spec,
                         bool* has_none) {
    NL_ASSIGN(const auto rotated, read_rotated(fields, architecture, spec));
    NL_ASSIGN(auto windowed, read_layer_types(fields, architecture, spec));
    NL_TRY(check_switch(fields, architecture, windowed));
    const int64_t fallback = fields.is_null("sliding_window") ? 0 : architecture.default_window;
    NL_ASSIGN(const int64_t window, fields.integer_or("sliding_window", fallback, 1, kMaxWindow));
    if (windowed.empty() || !architecture.layer_types) {
        NL_ASSIGN(auto by_rule, rule_of_windows(fields, architecture, rotated));
        // Not every loader of these families looks, so the types may not say anything else.
        if (!windowed.empty() && window > 0 && windowed != by_rule)
            return fields.wrong("layer_types", "none in this family, or the types that sliding_window gives",
                                NL_ERROR_UNSUPPORTED);
        windowed = std::move(by_rule);
    }
    *has_none = std::find(rotated.begin(), rotated.end(), false) != rotated.end();
    const int32_t none = has_local ? 2 : 1;
    spec.layers.resize(spec.num_layers);
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        LayerSpec& layer = spec.layers[i];
        if (windowed[i]) layer.window = static_cast<int32_t>(window);
        layer.rope = !rotated[i] ? none : windowed[i] && has_local ? 1 : 0;
    }
    return {};
}

Result<std::vector<bool>> read_experts(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec) {
    std::vector<bool> has_experts(spec.num_layers, architecture.experts != ExpertRule::never);
    if (architecture.experts == ExpertRule::never) return has_experts;
    ExpertSpec& experts = spec.experts;
    const bool some = architecture.experts == ExpertRule::some_layers;
    // Qwen3-MoE has it by either name.
    const char* const count_name = some && fields.find("num_experts") != nullptr ? "num_experts" : "num_local_experts";
    NL_ASSIGN(const int64_t count, fields.integer_or(count_name, some ? 128 : 8, 1, kMaxExperts));
    constexpr const char* kTopK = "num_experts_per_tok";
    NL_ASSIGN(const int64_t top_k, fields.integer_or(kTopK, some ? 8 : 2, 1, count));
    if (top_k > count) return fields.wrong(kTopK, "at most " + std::to_string(count) + ", as there are experts");
    experts.count = static_cast<int32_t>(count);
    experts.top_k = static_cast<int32_t>(top_k);
    if (!some) {
        experts.normalized = true;
        experts.intermediate_size = spec.intermediate_size;
        return has_experts;
    }
    NL_ASSIGN(experts.normalized, fields.boolean_or("norm_topk_prob", false));
    NL_ASSIGN(const int64_t inner, fields.integer_or("moe_intermediate_size", 768, 1, kMaxInner));
    experts.intermediate_size = static_cast<int32_t>(inner);
    NL_ASSIGN(const int64_t step, fields.integer_or("decoder_sparse_step", 1, 1, INT32_MAX));
    NL_ASSIGN(const auto dense, fields.integers_or_none("mlp_only_layers", 0, INT32_MAX));
    for (size_t i = 0; i < has_experts.size(); ++i) {
        const auto layer = static_cast<int64_t>(i);
        has_experts[i] = (layer + 1) % step == 0 && std::find(dense.begin(), dense.end(), layer) == dense.end();
    }
    return has_experts;
}

}  // namespace nanolith
