// tokenizer.json: a byte-pair encoding, a unigram model or WordPiece with its normaliser, pre-tokenizer, added tokens
// and decoder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/json.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
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

// The same from a model and a pre-tokenizer that stand elsewhere, and the other components as a tokenizer.json has
// them. An added token may be spelled as a piece of the model is, and is found in its place.
Result<std::shared_ptr<const Tokenizer>> assemble_tokenizer(std::unique_ptr<const TokenModel> model,
                                                            PreTokenizer pre_tokenizer, const Json& components,
                                                            const std::string& path, TokenizerConfig config);

}  // namespace nanolith
