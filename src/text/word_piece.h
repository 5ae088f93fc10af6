// WordPiece (Schuster and Nakajima 2012, as BERT uses it): a "model" of a tokenizer.json. A word becomes the longest
// piece that it begins with, then the longest one that the rest begins with, and so on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/piece_index.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

namespace nanolith {

class WordPiece final : public TokenModel {
  public:
    // BAD_MODEL and UNSUPPORTED begin with `where`.
    static Result<std::unique_ptr<const WordPiece>> read(const Json& json, const std::string& where);

    [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
    [[nodiscard]] int32_t unk() const override { return unk_; }
    [[nodiscard]] std::unique_ptr<TokenModel::Encoder> make_encoder(size_t text_bytes) const override;

  private:
    class Encoder;

    WordPiece() = default;
    void fill_indexes(const std::string& prefix);
    // Appends the word's pieces. False where it can't be made of pieces: what was appended stays.
    [[nodiscard]] bool append_pieces(std::string_view word, std::vector<int32_t>& tokens) const;

    Vocabulary vocabulary_;
    PieceIndex beginnings_;     // pieces that may begin a word
    PieceIndex continuations_;  // those that may follow, without the prefix that marks them
    int32_t unk_ = -1;
    int64_t max_characters_ = 0;  // a longer word is unknown
};

}  // namespace nanolith
