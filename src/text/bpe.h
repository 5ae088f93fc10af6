// Byte-pair encoding (Sennrich et al. 2016): the "model" of a tokenizer.json.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

namespace nanolith {

// Which pairs of tokens merge, and how early.
class MergeTable {
  public:
    struct Merge {
        int32_t right;
        int32_t rank;
        int32_t merged;
    };
    // Reads the merges, "a b" or ["a", "b"] each, the most important first. The right one's first `prefix_bytes` are
    // not in what they become.
    static Result<MergeTable> read(const Json& json, const Vocabulary& vocabulary, size_t prefix_bytes,
                                   const std::string& where);

    // Two pieces merge where their spellings put together are a piece, the lower ids first. All merges are those of
    // pieces from `first` on. BAD_MODEL and UNSUPPORTED begin with `where`.
    static Result<MergeTable> of_ranks(const Vocabulary& vocabulary, int32_t first, const std::string& where);

    // Whether no merge puts a space (U+2581) after something else: then words can be cut before spaces.
    [[nodiscard]] bool keeps_spaces_first() const { return keeps_spaces_first_; }

    // What `left` and `right` become, or null where they don't merge. In logarithmic time.
    [[nodiscard]] const Merge* find(int32_t left, int32_t right) const;
    // What the merge of that rank makes.
    [[nodiscard]] int32_t merged(int32_t rank) const { return merged_[static_cast<size_t>(rank)]; }

  private:
    struct Placed {
        int32_t left;
        Merge merge;
    };
    static Result<Placed> read_merge(const Json& json, size_t rank, const Vocabulary& vocabulary, size_t prefix_bytes,
                                     const std::string& where);
    // `placed` in any order, their pieces less than `num_pieces`, their ranks less than `num_ranks`.
    void fill(std::vector<Placed> placed, int32_t num_pieces, size_t num_ranks);

    std::vector<Merge> merges_;     // grouped by the left token, sorted by the right one
    std::vector<uint32_t> groups_;  // those with the left token t are groups_[t] to groups_[t + 1]
    std::vector<int32_t> merged_;   // by rank
    bool keeps_spaces_first_ = true;
};

class Bpe final : public TokenModel {
  public:
    // `byte_level`: words come as raw bytes, and the vocabulary spells them as byte_level.h says.
    // BAD_MODEL and UNSUPPORTED begin with `where`.
    static Result<std::unique_ptr<const Bpe>> read(const Json& json, bool byte_level, const std::string& where);

    // As tiktoken encodes: a word that is a piece is that token; merges are MergeTable::of_ranks. `vocabulary` spells
    // bytes as byte_level.h says.
    static Result<std::unique_ptr<const Bpe>> of_ranks(Vocabulary vocabulary, int32_t first, const std::string& where);

    [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
    [[nodiscard]] int32_t unk() const override { return unk_; }
    [[nodiscard]] std::unique_ptr<TokenModel::Encoder> make_encoder(size_t text_bytes) const override;

  private:
    class Encoder;

    Bpe() = default;
    Result<void> read_unk(const Json& json, const std::string& where);
    Result<void> read_affixes(const Json& json, const std::string& where);
    void fill_tables();
    void first_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
    // How the vocabulary spells a character (a byte where byte_level_) at that place of a word.
    [[nodiscard]] std::string spelled(std::string_view character, bool is_first, bool is_last) const;
    [[nodiscard]] int32_t whole_word(std::string_view word) const;
    [[nodiscard]] bool has_affixes() const { return !prefix_.empty() || !suffix_.empty(); }

    Vocabulary vocabulary_;
    MergeTable merges_;
    int32_t unk_ = -1;
    std::string prefix_;  // of every character but a word's first
    std::string suffix_;  // of a word's last character
    bool byte_level_ = false;
    bool fuse_unk_ = false;
    bool byte_fallback_ = false;
    bool cuts_at_spaces_ = false;  // a long word is encoded in parts, which makes the same tokens
    bool ignore_merges_ = false;   // a word that is a piece is that token, whatever the merges make of it
    // Tokens of single bytes: where byte_level_ their characters, else ASCII characters; -1 where there is none.
    std::array<int32_t, 256> byte_tokens_{};
    std::array<int32_t, 256> fallback_tokens_{};  // <0x00> to <0xFF>
};

}  // namespace nanolith
