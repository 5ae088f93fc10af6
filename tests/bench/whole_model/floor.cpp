#include "bench/whole_model/floor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/whole_model/session.h"

namespace nanolith::bench {
namespace {

using Json = nlohmann::json;

Json describe(const std::string& folder) {
    size_t length = 0;
    nl_model_describe(folder.data(), folder.size(), NL_DESCRIBE_JSON, nullptr, 0, &length);
    std::string text(length, '\0');
    must(nl_model_describe(folder.data(), folder.size(), NL_DESCRIBE_JSON, text.data(), text.size(), &length),
         "describe");
    return Json::parse(text);
}

// Weights that a step of `rows` rows multiplies with, and those that it has to read for that.
struct Weights {
    double multiplied = 0;  // summed over the rows
    double read = 0;
};

Weights weights_of(const ModelSizes& sizes, const StepRows& step) {
    const double head = sizes.vocab * sizes.hidden;
    Weights weights = {step.rows * sizes.layer_weights + step.output_rows * head,
                       sizes.layer_weights + (step.output_rows > 0 ? head : 0)};
    if (sizes.experts > 0) {
        // As many different experts as rows choose on average when they choose evenly.
        const double unchosen = std::pow(1 - sizes.experts_of_a_token / sizes.experts, step.rows);
        weights.read += sizes.layers * sizes.experts * (1 - unchosen) * sizes.expert_weights;
        weights.multiplied += step.rows * sizes.layers * sizes.experts_of_a_token * sizes.expert_weights;
    }
    return weights;
}

// Tokens of context, summed over the layers, of which those with a window see no more than that.
double over_layers(const ModelSizes& sizes, double tokens) {
    const double windowed = sizes.window > 0 ? sizes.windowed_layers : 0;
    return (sizes.layers - windowed) * tokens + windowed * std::min(tokens, sizes.window);
}

}  // namespace

ModelSizes read_sizes(const std::string& folder) {
    const Json facts = describe(folder);
    const bool is_file = std::filesystem::is_regular_file(folder);
    const Json config = is_file ? Json::object() : Json::parse(std::ifstream(folder + "/config.json"), nullptr, false);
    if (facts.value("model", "") != "supported" || config.is_discarded()) {
        std::fprintf(stderr, "bench_whole_model: %s: model: %s\n", folder.c_str(), facts.value("model", "").c_str());
        std::exit(EXIT_FAILURE);
    }
    ModelSizes sizes;
    sizes.layers = facts.value("layers", 0.0);
    sizes.hidden = facts.value("hidden size", 0.0);
    sizes.heads = facts.value("query heads", 0.0);
    sizes.kv_heads = facts.value("KV heads", 0.0);
    sizes.head_dim = facts.value("head dim", 0.0);
    sizes.vocab = facts.value("logits", 0.0);
    sizes.experts = facts.value("experts", 0.0);
    sizes.experts_of_a_token = facts.value("experts for each token", 0.0);
    sizes.window = facts.value("attention window", 0.0);
    sizes.windowed_layers = facts.value("layers with a window", 0.0);
    if (is_file) return sizes;
    const std::string weights = facts.value("weights", "");
    sizes.element_bytes = weights == "float32" ? 4 : 2;
    const auto parameters = facts.value("parameters", 0.0);
    sizes.file_bytes = parameters * sizes.element_bytes;
    const double inner = config.value("moe_intermediate_size", config.value("intermediate_size", 0.0));
    if (sizes.experts > 0) sizes.expert_weights = 3 * sizes.hidden * inner;
    const bool tied = config.value("tie_word_embeddings", facts.value("family", "").rfind("Gemma", 0) == 0);
    const double embedding = sizes.vocab * sizes.hidden;
    sizes.layer_weights = parameters - (tied ? 1 : 2) * embedding - sizes.layers * sizes.experts * sizes.expert_weights;
    return sizes;
}

StepRows decode_rows(double rows, double shared, double own) {
    return {rows, rows, shared, own, rows};
}

StepRows prefill_rows(double tokens) {
    return {tokens, 0, 0, tokens / 2, 0};
}

double floor_of(const ModelSizes& sizes, const Ceilings& ceilings, const StepRows& step) {
    const Weights weights = weights_of(sizes, step);
    const double kv_token = 2 * sizes.kv_heads * sizes.head_dim;  // numbers of a token in a layer
    const double kv = kv_token * (over_layers(sizes, step.shared) + step.own_readers * over_layers(sizes, step.own));
    const double bytes = sizes.element_bytes * (weights.read + kv);
    const double seen = over_layers(sizes, step.shared + step.own);
    const double flops = 2 * weights.multiplied + 4 * step.rows * sizes.heads * sizes.head_dim * seen;
    double seconds = 0;
    if (sizes.layer_weights == 0) return seconds;
    if (ceilings.bytes_per_second > 0) seconds = bytes / ceilings.bytes_per_second;
    if (ceilings.flops_per_second > 0) seconds = std::max(seconds, flops / ceilings.flops_per_second);
    return seconds;
}

}  // namespace nanolith::bench
