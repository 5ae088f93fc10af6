// How the byte-pair encodings of GGUF files cut a text into words: the file has a name alone (tokenizer.ggml.pre),
// whose meaning is that of the models' own tokenizer.json.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "files/json.h"

namespace nanolith {

struct GgufPreTokenizer {
    std::string_view name;
    const char* pattern = nullptr;   // matches are words; null: GPT-2's
    bool digits_alone = false;       // each digit is a word, whatever the pattern
    bool takes_known_words = false;  // a word that is a piece is that token, whatever the merges make of it
    bool nfc = false;                // texts are normalised so
    bool adds_bos = false;           // where the file does not say
};

// Null where the name is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);
// "gpt-2, llama-bpe, ..", for messages.
std::string gguf_pre_tokenizer_names();
// As a tokenizer.json has it.
Json pre_tokenizer_json(const GgufPreTokenizer& pre_tokenizer);

}  // namespace nanolith
