// tokenizer.json: a byte-pair encoding with its normaliser, pre-tokenizer, added tokens and decoder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace nanolith {

// The tokenizer in the file `path`. Its own added tokens count; of `config` the special tokens and the chat template,
// and whether to put bos and eos where it says so. Truncation and padding are a caller's business and are not applied.
// A component that is not known is UNSUPPORTED by its name.
Result<std::shared_ptr<const Tokenizer>> load_json_tokenizer(const std::string& path, TokenizerConfig config);

// The same from the file's text.
Result<std::shared_ptr<const Tokenizer>> parse_json_tokenizer(std::string_view text, const std::string& path,
                                                              TokenizerConfig config);

}  // namespace nanolith
