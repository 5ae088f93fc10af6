// The parts of a SentencePiece model file (a serialised sentencepiece.ModelProto) that libsentencepiece trusts or
// does not tell: read here to refuse files that would harm it, and to decode token by token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nanolith {

struct SentencePieceFacts {
    bool adds_first_space = true;      // the encoder puts a space before a text
    bool spaces_stand_after = false;   // or after it: pieces end with their space, not begin with it
    bool removes_extra_spaces = true;  // and removes all leading, trailing and double ones
    bool escapes_spaces = true;        // and writes them as U+2581
    bool has_byte_tokens = false;      // characters that no piece has become bytes, not the unknown token
    bool knows_words_alone = false;    // a word between spaces is one token, known or not
    std::string unknown_text;          // what the unknown token decodes to
    std::string charsmap;              // what the encoder replaces, see charsmap.h
    std::vector<std::string> symbols;  // user-defined: stay as they are, whatever the charsmap says
};

// Checks the wire format, the pieces and the normalisation table of `bytes`. BAD_MODEL or UNSUPPORTED name `path`.
Result<SentencePieceFacts> read_sentencepiece_file(std::string_view bytes, const std::string& path);

// Writes the bytes of a byte-pair SentencePiece model.
class SentencePieceWriter {
  public:
    // The next piece; `type` as the format numbers them: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6
    // byte.
    void add_piece(std::string_view piece, float score, int32_t type);
    // `byte_fallback`: characters that no piece has become byte pieces.
    [[nodiscard]] std::string finish(bool byte_fallback, bool removes_extra_spaces) &&;

  private:
    std::string bytes_;
};

// The same model, which takes texts as they are: with the encoder's normalisation done before. `bytes` passed
// read_sentencepiece_file.
std::string without_normalizer(std::string_view bytes);

}  // namespace nanolith
