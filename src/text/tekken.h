// tekken.json: the byte-pair encoding of Mistral's models, as the mistral-common package reads it. Its pieces stand in
// the order in which they merge; the special tokens have the first ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace nanolith {

// The tokenizer in the file `path`. Special tokens are found in texts, which mistral-common leaves to its callers, and
// <s> is put before a text; of `config` count its special tokens' names where it has some, whether to put bos and eos
// where it says so, and the chat template. BAD_MODEL and UNSUPPORTED name the path.
Result<std::shared_ptr<const Tokenizer>> load_tekken(const std::string& path, TokenizerConfig config);

// The same from the file's text.
Result<std::shared_ptr<const Tokenizer>> parse_tekken(std::string_view text, const std::string& path,
                                                      TokenizerConfig config);

}  // namespace nanolith
