// The tokenizers in tests/unit/data, made by its make_tokenizers.sh.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace nanolith {

constexpr std::array<const char*, 3> kTokenizerNames = {"bpe_bytes", "bpe_symbols", "unigram"};

inline std::string tokenizer_folder(const std::string& name) {
    return std::string(NL_UNIT_DATA) + "/" + name;
}

inline std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& name) {
    auto tokenizer = Tokenizer::load(tokenizer_folder(name));
    if (tokenizer.ok()) return *tokenizer;
    ADD_FAILURE() << tokenizer.error().message;
    return nullptr;
}

}  // namespace nanolith
