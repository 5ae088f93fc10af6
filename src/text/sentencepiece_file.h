// The parts of a SentencePiece model file (a serialised sentencepiece.ModelProto) that libsentencepiece trusts or
// does not tell: read here to refuse files that would harm it, and to decode token by token.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

struct SentencePieceFacts {
    bool adds_first_space = true;      // the encoder puts a space before a text
    bool removes_extra_spaces = true;  // and removes all leading, trailing and double ones
    std::string unknown_text;          // what the unknown token decodes to
};

// Checks the wire format, the pieces and the normalisation table of `bytes`. BAD_MODEL or UNSUPPORTED name `path`.
Result<SentencePieceFacts> read_sentencepiece_file(std::string_view bytes, const std::string& path);

}  // namespace nanolith
