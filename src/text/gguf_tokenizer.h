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
// The same of a header that was read.
Result<std::shared_ptr<const Tokenizer>> make_gguf_tokenizer(const GgufHeader& header);

// The tokens that are spelled as those that end a turn or a text are ("<|im_end|>", "<end_of_turn>", ..), and are
// control or user-defined tokens: such files name one or two ends and leave the others to their readers.
Result<std::vector<int64_t>> gguf_end_tokens(const GgufHeader& header);

}  // namespace nanolith
