// The tokenizer in a GGUF file's metadata (tokenizer.ggml.*): a SentencePiece vocabulary with scores ("llama") or a
// byte-level byte-pair encoding with merges ("gpt2").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/gguf.h"
#include "text/tokenizer.h"

namespace nanolith {

// NOT_FOUND where the file has none. UNSUPPORTED names a kind of tokenizer or of pre-tokenizer that is not known;
// BAD_MODEL the key that is wrong.
Result<std::shared_ptr<const Tokenizer>> load_gguf_tokenizer(const std::string& path);
// The tokenizer of a header that has been read; errors as of load_gguf_tokenizer.
Result<std::shared_ptr<const Tokenizer>> make_gguf_tokenizer(const GgufHeader& header);

// The control and user-defined tokens whose spelling is that of a well-known end of a turn or a text ("<|im_end|>",
// "<end_of_turn>", ..): the metadata name only one or two of a model's end tokens.
Result<std::vector<int64_t>> gguf_end_tokens(const GgufHeader& header);

}  // namespace nanolith
