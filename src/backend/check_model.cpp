#include "backend/check_model.h"

#include <bit>
#include <limits>
#include <string>

namespace nanolith {

namespace {

Result<void> check_positive(const char* name, int64_t value) {
    if (value > 0) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ", expected at least 1");
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
                    ", expected a multiple of num_kv_heads, ", spec.num_kv_heads);
    }
    if (spec.head_dim % 2 != 0) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", spec.head_dim, ", expected an even number");
    }
    if (spec.rope_frequencies.size() != static_cast<size_t>(spec.head_dim / 2)) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "rope_frequencies has ", spec.rope_frequencies.size(),
                    " elements, expected head_dim / 2 = ", spec.head_dim / 2);
    }
    return {};
}

Result<void> check_options(const ExecutorOptions& options) {
    NL_TRY(check_positive("num_pages", options.num_pages));
    NL_TRY(check_positive("max_rows", options.max_rows));
    NL_TRY(check_positive("max_output_rows", options.max_output_rows));
    const int32_t page_size = options.page_size;
    if (page_size < 16 || page_size > 256 || !std::has_single_bit(static_cast<uint32_t>(page_size))) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "page_size is ", page_size, ", expected a power of two from 16 to 256");
    }
    // Slots are int32_t.
    const int32_t most_pages = std::numeric_limits<int32_t>::max() / page_size;
    if (options.num_pages > most_pages) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_pages is ", options.num_pages, ", expected at most ", most_pages);
    }
    return {};
}

Result<void> check_weight(const std::string& name, const WeightView& weight, int64_t rows, int64_t cols) {
    if (!weight.present()) return fail(NL_ERROR_INVALID_ARGUMENT, "the weight ", name, " is missing");
    if (weight.rows != rows || weight.cols != cols) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "the weight ", name, " is [", weight.rows, ", ", weight.cols,
                    "], expected [", rows, ", ", cols, "]");
    }
    return {};
}

Result<void> check_optional(const std::string& name, const WeightView& weight, int64_t cols) {
    return weight.present() ? check_weight(name, weight, 1, cols) : Result<void>();
}

Result<void> check_layer(const ModelSpec& spec, const LayerWeights& layer, const std::string& prefix) {
    const int64_t hidden = spec.hidden_size;
    const int64_t inner = spec.intermediate_size;
    const int64_t q_size = int64_t{spec.num_heads} * spec.head_dim;
    const int64_t kv_size = int64_t{spec.num_kv_heads} * spec.head_dim;
    NL_TRY(check_weight(prefix + "attention_norm", layer.attention_norm, 1, hidden));
    NL_TRY(check_weight(prefix + "q_proj", layer.q_proj, q_size, hidden));
    NL_TRY(check_weight(prefix + "k_proj", layer.k_proj, kv_size, hidden));
    NL_TRY(check_weight(prefix + "v_proj", layer.v_proj, kv_size, hidden));
    if (layer.q_bias.present() != layer.k_bias.present() || layer.q_bias.present() != layer.v_bias.present()) {
        return fail(NL_ERROR_INVALID_ARGUMENT, prefix,
                    ": of q_bias, k_bias and v_bias some are missing, expected all or none");
    }
    NL_TRY(check_optional(prefix + "q_bias", layer.q_bias, q_size));
    NL_TRY(check_optional(prefix + "k_bias", layer.k_bias, kv_size));
    NL_TRY(check_optional(prefix + "v_bias", layer.v_bias, kv_size));
    NL_TRY(check_optional(prefix + "q_norm", layer.q_norm, spec.head_dim));
    NL_TRY(check_optional(prefix + "k_norm", layer.k_norm, spec.head_dim));
    NL_TRY(check_weight(prefix + "o_proj", layer.o_proj, hidden, q_size));
    NL_TRY(check_weight(prefix + "mlp_norm", layer.mlp_norm, 1, hidden));
    NL_TRY(check_weight(prefix + "gate_proj", layer.gate_proj, inner, hidden));
    NL_TRY(check_weight(prefix + "up_proj", layer.up_proj, inner, hidden));
    return check_weight(prefix + "down_proj", layer.down_proj, hidden, inner);
}

}  // namespace

Result<void> check_model(const ModelSpec& spec, const ModelWeights& weights, const ExecutorOptions& options) {
    NL_TRY(check_spec(spec));
    NL_TRY(check_options(options));
    if (weights.layers.size() != static_cast<size_t>(spec.num_layers)) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "there are weights of ", weights.layers.size(), " layers, expected ",
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
