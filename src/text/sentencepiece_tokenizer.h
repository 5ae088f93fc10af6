// tokenizer.model: a SentencePiece model, BPE or unigram, run by libsentencepiece.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace nanolith {

// Most normalised text that libsentencepiece gets at once, in bytes: it takes some 250 times as much memory. A longer
// text is cut where no piece reaches across (piece_cuts.h), which is an error where it has no such place in so many
// bytes.
constexpr size_t kMaxPartBytes = size_t{64} << 10U;

// The model in the file `path`. The tokens that `config` adds are found inside a text, control symbols of the model
// alone are not. The space that the model puts before a text also stands after every added token where `config` says
// "legacy", else only at the beginning; its add_prefix_space counts more than the model's own setting.
// Texts longer than `part_bytes` are cut even where libsentencepiece could take them: a test's way to cut everywhere.
Result<std::shared_ptr<const Tokenizer>> load_sentencepiece(const std::string& path, TokenizerConfig config,
                                                            size_t part_bytes = kMaxPartBytes);

// The same of a model's bytes; `path` is for messages.
Result<std::shared_ptr<const Tokenizer>> parse_sentencepiece(std::string_view bytes, const std::string& path,
                                                             TokenizerConfig config, size_t part_bytes = kMaxPartBytes);

}  // namespace nanolith
