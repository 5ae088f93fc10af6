#include "backend/check_model.h"

#include <limits>
#include <string>

#include "backend/page_size.h"

namespace nanolith {

namespace {

Result<void> check_positive(const char* name, int64_t value) {
    if (value > 0) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ": expected at least 1");
}

Result<void> check_layers(const ModelSpec& spec) {
    const auto pairs = static_cast<size_t>(spec.head_dim / 2);
    for (const RopeSpec& rope : spec.ropes) {
        if (rope.frequencies.size() != pairs || (!rope.magnitudes.empty() && rope.magnitudes.size() != pairs)) {
            return fail(NL_ERROR_INVALID_ARGUMENT, "a rope has ", rope.frequencies.size(), " frequencies and ",
                        rope.magnitudes.size(), " magnitudes: expected head_dim / 2 = ", pairs, " (or no magnitudes)");
        }
    }
    if (spec.layers.size() != static_cast<size_t>(spec.num_layers)) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "layers has ", spec.layers.size(), " elements: expected num_layers, ",
                    spec.num_layers);
    }
    for (const LayerSpec& layer : spec.layers) {
        if (layer.rope < 0 || static_cast<size_t>(layer.rope) >= spec.ropes.size() || layer.window < 0) {
            return fail(NL_ERROR_INVALID_ARGUMENT, "a layer has rope ", layer.rope, " and window ", layer.window,
                        ": expected a rope below ", spec.ropes.size(), " and a window of at least 0");
        }
    }
    return {};
}

Result<void> check_experts(const ExpertSpec& experts) {
    if (experts.count == 0) return {};
    NL_TRY(check_positive("experts.count", experts.count));
    NL_TRY(check_positive("experts.top_k", experts.top_k));
    NL_TRY(check_positive("experts.intermediate_size", experts.intermediate_size));
    if (experts.top_k <= experts.count) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "experts.top_k is ", experts.top_k, ": expected at most ", experts.count);
}

Result<void> check_spec(const ModelSpec& spec) {
    NL_TRY(check_positive("num_layers", spec.num_layers));
    NL_TRY(check_positive("hidden_size", spec.hidden_size));
    NL_TRY(check_positive("intermediate_size", spec.intermediate_size));
    NL_TRY(check_positive("num_heads", spec.num_heads));
    NL_TRY(check_positive("num_kv_heads", spec.num_kv_heads));
    NL_TRY(check_positive("head_dim", spec.head_dim));
    NL_TRY(check_positive("vocab_size", spec.vocab_size));
    NL_TRY(check_positive("max_context", spec.max_context));
    if (spec.num_heads % spec.num_kv_heads != 0) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_heads is ", spec.num_heads,
                    ": expected a multiple of num_kv_heads, ", spec.num_kv_heads);
    }
    if (spec.head_dim % 2 != 0) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", spec.head_dim, ": expected an even number");
    }
    NL_TRY(check_layers(spec));
    return check_experts(spec.experts);
}

Result<void> check_options(const ExecutorOptions& options) {
    NL_TRY(check_positive("num_pages", options.num_pages));
    NL_TRY(check_positive("max_rows", options.max_rows));
    NL_TRY(check_positive("max_output_rows", options.max_output_rows));
    if (options.max_kept_logits < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "max_kept_logits is ", options.max_kept_logits, ": expected at least 0");
    NL_TRY(check_page_size(options.page_size));
    // A slot, page * page_size + offset, is an int32_t.
    const int32_t most_pages = std::numeric_limits<int32_t>::max() / options.page_size;
    if (options.num_pages > most_pages) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_pages is ", options.num_pages, ": expected at most ", most_pages);
    }
    return {};
}

Result<void> check_weight(const std::string& name, const WeightView& weight, int64_t rows, int64_t cols) {
    if (!weight.present()) return fail(NL_ERROR_INVALID_ARGUMENT, "the weight ", name, " is missing");
    if (weight.rows != rows || weight.cols != cols) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "the weight ", name, " is [", weight.rows, ", ", weight.cols,
                    "]: expected [", rows, ", ", cols, "]");
    }
    return {};
}

Result<void> check_optional(const std::string& name, const WeightView& weight, int64_t cols) {
    return weight.present() ? check_weight(name, weight, 1, cols) : Result<void>();
}

Result<void> check_gated(const std::string& prefix, const WeightView& gate, const WeightView& up,
                         const WeightView& down, int64_t hidden, int64_t inner) {
    NL_TRY(check_weight(prefix + "gate_proj", gate, inner, hidden));
    NL_TRY(check_weight(prefix + "up_proj", up, inner, hidden));
    return check_weight(prefix + "down_proj", down, hidden, inner);
}

Result<void> check_mlp(const ModelSpec& spec, const LayerWeights& layer, const std::string& prefix) {
    if (layer.gate_bias.present() != layer.up_bias.present()) {
        return fail(NL_ERROR_INVALID_ARGUMENT, prefix, ": of gate_bias and up_bias one is missing: expected both");
    }
    NL_TRY(check_optional(prefix + "gate_bias", layer.gate_bias, spec.intermediate_size));
    NL_TRY(check_optional(prefix + "up_bias", layer.up_bias, spec.intermediate_size));
    NL_TRY(check_optional(prefix + "down_bias", layer.down_bias, spec.hidden_size));
    if (!layer.router.present()) {
        return check_gated(prefix, layer.gate_proj, layer.up_proj, layer.down_proj, spec.hidden_size,
                           spec.intermediate_size);
    }
    if (layer.gate_bias.present() || layer.down_bias.present() || layer.mlp_post_norm.present()) {
        return fail(NL_ERROR_INVALID_ARGUMENT, prefix,
                    ": there are experts and biases or a norm of the MLP: expected experts alone");
    }
    if (spec.experts.count == 0) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "the weight ", prefix,
                    "router is there and experts.count is 0: expected at least 1");
    }
    NL_TRY(check_weight(prefix + "router", layer.router, spec.experts.count, spec.hidden_size));
    if (layer.experts.size() != static_cast<size_t>(spec.experts.count)) {
        return fail(NL_ERROR_INVALID_ARGUMENT, prefix, "experts has ", layer.experts.size(), " elements: expected ",
                    spec.experts.count);
    }
    for (size_t i = 0; i < layer.experts.size(); ++i) {
        const ExpertWeights& expert = layer.experts[i];
        NL_TRY(check_gated(prefix + "experts." + std::to_string(i) + ".", expert.gate_proj, expert.up_proj,
                           expert.down_proj, spec.hidden_size, spec.experts.intermediate_size));
    }
    return {};
}

Result<void> check_layer(const ModelSpec& spec, const LayerWeights& layer, const std::string& prefix) {
    const int64_t hidden = spec.hidden_size;
    const int64_t q_size = int64_t{spec.num_heads} * spec.head_dim;
    const int64_t kv_size = int64_t{spec.num_kv_heads} * spec.head_dim;
    NL_TRY(check_weight(prefix + "attention_norm", layer.attention_norm, 1, hidden));
    NL_TRY(check_weight(prefix + "q_proj", layer.q_proj, q_size, hidden));
    NL_TRY(check_weight(prefix + "k_proj", layer.k_proj, kv_size, hidden));
    NL_TRY(check_weight(prefix + "v_proj", layer.v_proj, kv_size, hidden));
    if (layer.q_bias.present() != layer.k_bias.present() || layer.q_bias.present() != layer.v_bias.present()) {
        return fail(NL_ERROR_INVALID_ARGUMENT, prefix,
                    ": of q_bias, k_bias and v_bias some are missing: expected all or none");
    }
    NL_TRY(check_optional(prefix + "q_bias", layer.q_bias, q_size));
    NL_TRY(check_optional(prefix + "k_bias", layer.k_bias, kv_size));
    NL_TRY(check_optional(prefix + "v_bias", layer.v_bias, kv_size));
    NL_TRY(check_optional(prefix + "q_norm", layer.q_norm, spec.head_dim));
    NL_TRY(check_optional(prefix + "k_norm", layer.k_norm, spec.head_dim));
    NL_TRY(check_weight(prefix + "o_proj", layer.o_proj, hidden, q_size));
    NL_TRY(check_optional(prefix + "o_bias", layer.o_bias, hidden));
    NL_TRY(check_optional(prefix + "attention_post_norm", layer.attention_post_norm, hidden));
    NL_TRY(check_weight(prefix + "mlp_norm", layer.mlp_norm, 1, hidden));
    NL_TRY(check_optional(prefix + "mlp_post_norm", layer.mlp_post_norm, hidden));
    return check_mlp(spec, layer, prefix);
}

}  // namespace

Result<void> check_model(const ModelSpec& spec, const ModelWeights& weights, const ExecutorOptions& options) {
    NL_TRY(check_spec(spec));
    NL_TRY(check_options(options));
    if (weights.layers.size() != static_cast<size_t>(spec.num_layers)) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "there are weights of ", weights.layers.size(), " layers: expected ",
                    spec.num_layers);
    }
    NL_TRY(check_weight("embedding", weights.embedding, spec.vocab_size, spec.hidden_size));
    NL_TRY(check_weight("final_norm", weights.final_norm, 1, spec.hidden_size));
    NL_TRY(check_weight("head", weights.head, spec.vocab_size, spec.hidden_size));
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        NL_TRY(check_layer(spec, weights.layers[i], "layers." + std::to_string(i) + "."));
    }
    return {};
}

}  // namespace nanolith
