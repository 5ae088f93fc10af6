// The parts of a SentencePiece model file (a serialised sentencepiece.ModelProto) that libsentencepiece trusts or
// does not tell: read here to refuse files that would harm it, and to decode token by token.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

struct SentencePieceFacts {
    // Whether decoding drops a space at the beginning of a text: the first one only (it was put there by the
    // encoder), or all of them (the encoder removes extra spaces anyway).
    bool drops_first_space = true;
    bool drops_leading_spaces = true;
    std::string unknown_text;  // what the unknown token decodes to
};

// Checks the wire format, the pieces and the normalisation table of `bytes`. BAD_MODEL or UNSUPPORTED name `path`.
Result<SentencePieceFacts> read_sentencepiece_file(std::string_view bytes, const std::string& path);

}  // namespace nanolith
