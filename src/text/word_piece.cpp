#include "text/word_piece.h"

#include <algorithm>

#include "files/json_fields.h"
#include "text/component.h"
#include "text/token_list.h"
#include "text/unicode.h"

namespace nanolith {

class WordPiece::Encoder final : public TokenModel::Encoder {
  public:
    explicit Encoder(const WordPiece& model) : model_(&model) {}

    [[nodiscard]] Result<void> encode(std::string_view word, std::vector<int32_t>& tokens) override {
        const size_t before = tokens.size();
        if (count_characters(word) <= model_->max_characters_ && model_->append_pieces(word, tokens)) return {};
        tokens.resize(before);
        if (model_->unk_ < 0) return unknown_word(word);
        make_room(tokens, 1);
        tokens.push_back(model_->unk_);
        return {};
    }

  private:
    const WordPiece* model_;
};

Result<std::unique_ptr<const WordPiece>> WordPiece::read(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    std::unique_ptr<WordPiece> made(new WordPiece);
    NL_ASSIGN(const std::string unk, read_string(fields, "unk_token"));
    NL_ASSIGN(const std::string prefix, read_string(fields, "continuing_subword_prefix"));
    NL_ASSIGN(made->max_characters_, fields.integer("max_input_chars_per_word", 0, INT64_MAX));
    const Json* const vocab = fields.find("vocab");
    if (vocab == nullptr) return fields.wrong("vocab", "an object");
    NL_ASSIGN(made->vocabulary_, Vocabulary::read(*vocab, where));
    NL_TRY(check_piece_lengths(made->vocabulary_, where));
    made->unk_ = made->vocabulary_.find(unk);
    made->fill_indexes(prefix);
    return std::unique_ptr<const WordPiece>(std::move(made));
}

void WordPiece::fill_indexes(const std::string& prefix) {
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
        const std::string_view piece = vocabulary_.piece(id);
        beginnings_.add(piece, id);
        if (piece.starts_with(prefix)) continuations_.add(piece.substr(prefix.size()), id);
    }
    beginnings_.finish();
    continuations_.finish();
}

bool WordPiece::append_pieces(std::string_view word, std::vector<int32_t>& tokens) const {
    const PieceIndex* index = &beginnings_;
    while (!word.empty()) {
        const PieceIndex::Match match = index->longest_at(word);
        if (match.length == 0) return false;
        make_room(tokens, 1);
        tokens.push_back(match.value);
        word.remove_prefix(match.length);
        index = &continuations_;
    }
    return true;
}

std::unique_ptr<TokenModel::Encoder> WordPiece::make_encoder(size_t /*text_bytes*/) const {
    return std::make_unique<Encoder>(*this);
}

}  // namespace nanolith
