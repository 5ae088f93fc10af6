// A unigram language model (Kudo 2018): a "model" of a tokenizer.json. Of all ways to cut a word into pieces it takes
// the one whose scores have the highest sum (Viterbi's algorithm), with the sums that the tokenizers package makes, to
// the bit: they decide between ways that are equally good.
#pragma once

#include <array>
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

class Unigram final : public TokenModel {
  public:
    // `json` is from parse_json_like_serde. BAD_MODEL and UNSUPPORTED begin with `where`.
    static Result<std::unique_ptr<const Unigram>> read(const Json& json, const std::string& where);

    [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
    [[nodiscard]] int32_t unk() const override { return unk_; }
    [[nodiscard]] std::unique_ptr<TokenModel::Encoder> make_encoder(size_t text_bytes) const override;

  private:
    class Encoder;

    Unigram() = default;
    Result<void> read_pieces(const Json* json, const std::string& where);
    Result<void> read_unk(const Json& json, const std::string& where);
    void fill_tables();

    Vocabulary vocabulary_;
    std::vector<double> scores_;        // by id
    std::vector<uint16_t> characters_;  // how many a piece has, by id
    PieceIndex index_;
    double unknown_score_ = 0;  // of a character that is no piece
    int32_t unk_ = -1;
    bool byte_fallback_ = false;
    std::array<int32_t, 256> byte_tokens_{};  // <0x00> to <0xFF>, -1 where there is none
};

// One word's best way, then the next one's. Takes 4 bytes a character of the word.
class Unigram::Encoder final : public TokenModel::Encoder {
  public:
    explicit Encoder(const Unigram& model);
    [[nodiscard]] Result<void> encode(std::string_view word, std::vector<int32_t>& tokens) override;

  private:
    Result<void> find_way(std::string_view word);
    // The ways on from the character `begin`, where the best way is known; `rest` of the word stands after it.
    Result<void> extend(size_t begin, std::string_view rest);
    // A way that ends before the character `end` with `piece`: it counts where it is the first one there or the best.
    void offer(size_t end, int32_t piece, double score);
    [[nodiscard]] bool is_better(size_t end, double score) const;
    [[nodiscard]] double& score_at(size_t place) { return scores_[place & (scores_.size() - 1)]; }

    struct Place {
        size_t byte;
        size_t character;
    };
    // Where the last piece of the way to `end` begins.
    [[nodiscard]] Place begin_of(std::string_view word, const Place& end) const;
    [[nodiscard]] bool is_unknown(const Place& end) const;
    // Appends the tokens of what the way leaves unknown, the last one first.
    void append_unknown(std::string_view text, std::vector<int32_t>& tokens) const;

    const Unigram* model_;
    std::vector<int32_t> last_;   // the last piece of the best way to each character of the word, and to its end
    std::vector<double> scores_;  // of the ways to the latest characters: to more than any piece has
};

}  // namespace nanolith
