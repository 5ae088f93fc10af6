// config.json and generation_config.json of a Hugging Face model folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/architecture.h"

namespace nanolith {

struct Config {
    const Architecture* architecture = nullptr;  // an entry of architectures()
    ModelSpec spec;
    bool tied_head = false;  // the head is the embedding
    bool qkv_bias = false;
    std::vector<int32_t> end_tokens;  // below spec.vocab_size; empty where config.json names none
};

// Reads config.json's text. `where` begins messages: the file's path.
// BAD_MODEL: a field is missing, of the wrong type or out of its range, or two fields contradict each other; the
// message names the field, its value and what was expected. UNSUPPORTED: a well-formed model that the forward pass
// does not compute, named by the field that asks for it.
Result<Config> parse_config(std::string_view text, const std::string& where);

// "eos_token_id" of generation_config.json's text: a token or a list of them, each below vocab_size.
Result<std::vector<int32_t>> parse_end_tokens(std::string_view text, const std::string& where, int32_t vocab_size);

}  // namespace nanolith
