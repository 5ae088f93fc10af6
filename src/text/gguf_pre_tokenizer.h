// How the byte-pair encodings of GGUF files cut a text into words. The file only has a name for it
// (tokenizer.ggml.pre); what the name means is taken from the tokenizer.json files of the models that have it.
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
    bool takes_known_words = false;  // a word that is in the vocabulary is one token, even if merges don't make it
    bool nfc = false;                // texts are normalised to NFC first
    bool adds_bos = false;           // used where the file does not have tokenizer.ggml.add_bos_token
};

// Null where the name is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);
// "gpt-2, llama-bpe, ..", for messages.
std::string gguf_pre_tokenizer_names();
// The "pre_tokenizer" of a tokenizer.json that cuts in the same way.
Json pre_tokenizer_json(const GgufPreTokenizer& pre_tokenizer);

}  // namespace nanolith
