// tokenizer.model: a SentencePiece model, BPE or unigram, run by libsentencepiece.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace nanolith {

// The model in the file `path`. The tokens that `config` adds are found inside a text, control symbols of the model
// alone are not. The space that the model puts before a text also stands behind every added token where `config` says
// "legacy", else only at the beginning; its add_prefix_space counts more than the model's own setting.
Result<std::shared_ptr<const Tokenizer>> load_sentencepiece(const std::string& path, TokenizerConfig config);

}  // namespace nanolith
