// config.json and generation_config.json of a Hugging Face model folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/model_spec.h"
#include "base/result.h"
#include "files/json.h"
#include "model/architecture.h"
#include "model/quantization.h"

namespace nanolith {

struct Config {
    const Architecture* architecture = nullptr;  // an entry of architectures()
    TensorNames tensors;                         // names of the tensors in the model's files
    ModelSpec spec;
    Quantization quantization;
    bool tied_head = false;  // the head is the embedding
    bool attention_bias = false;
    bool mlp_bias = false;
    std::vector<bool> has_experts;    // [num_layers]
    std::vector<int32_t> head_order;  // see WeightView::order: of queries and keys
    std::vector<int32_t> end_tokens;  // below spec.vocab_size; empty where config.json names none
};

// Reads config.json's text. `where` begins messages: the file's path.
// BAD_MODEL: a field is missing, of the wrong type or out of its range, or two fields contradict each other; the
// message names the field, its value and what was expected. UNSUPPORTED: a well-formed model that the forward pass
// does not compute, named by the field that asks for it. INVALID_ARGUMENT: max_context, the longest context that is
// wanted (0: the model's own), is more than the model holds. The model's own is the one before its extension where
// "longrope" has other angles for longer ones.
Result<Config> parse_config(std::string_view text, const std::string& where, int64_t max_context = 0);

// As parse_config, of JSON that has been parsed.
Result<Config> read_config(const Json& json, const std::string& where, int64_t max_context = 0);

// "eos_token_id" of generation_config.json's text: a token or a list of them, each below vocab_size.
Result<std::vector<int32_t>> parse_end_tokens(std::string_view text, const std::string& where, int32_t vocab_size);

}  // namespace nanolith
