// What a model folder says about its tokenizer beside the vocabulary: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json, chat_template.jinja.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace nanolith {

struct TokenizerConfig {
    // The special tokens' spelling, empty where they are not named.
    std::string bos;
    std::string eos;
    std::string unk;
    std::string pad;
    // Whether encoding with special tokens puts them; nothing where the folder does not say.
    std::optional<bool> add_bos;
    std::optional<bool> add_eos;
    // Whether a space is put before a text, and whether after every special token too ("legacy").
    std::optional<bool> add_prefix_space;
    std::optional<bool> legacy;
    std::vector<AddedToken> added_tokens;  // in the order of their ids
    std::string chat_template;             // empty where there is none
};

// Every file may be missing. BAD_MODEL where one is damaged.
Result<TokenizerConfig> read_tokenizer_config(const std::string& folder);

}  // namespace nanolith
