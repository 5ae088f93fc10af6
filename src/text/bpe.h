// Byte-pair encoding (Sennrich et al. 2016): the "model" of a tokenizer.json.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
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
    // Reads the merges, "a b" or ["a", "b"] each, the most important first.
    static Result<MergeTable> read(const Json& json, const Vocabulary& vocabulary, const std::string& where);

    // Whether no merge puts a space (U+2581) behind something else: then words can be cut before spaces.
    [[nodiscard]] bool keeps_spaces_first() const { return keeps_spaces_first_; }

    // What `left` and `right` become, or null where they don't merge. In logarithmic time.
    [[nodiscard]] const Merge* find(int32_t left, int32_t right) const;

  private:
    std::vector<Merge> merges_;     // grouped by the left token, sorted by the right one
    std::vector<uint32_t> groups_;  // those with the left token t are groups_[t] to groups_[t + 1]
    bool keeps_spaces_first_ = true;
};

class Bpe {
  public:
    // `byte_level`: words come as raw bytes, and the vocabulary spells them as byte_level.h says.
    // BAD_MODEL and UNSUPPORTED begin with `where`.
    static Result<Bpe> read(const Json& json, bool byte_level, const std::string& where);

    [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
    // The unknown token, -1 where there is none.
    [[nodiscard]] int32_t unk() const { return unk_; }

    class Encoder;

  private:
    Bpe() = default;
    struct Symbol {
        int32_t token;
        int32_t previous;  // places in the word, -1 at its ends
        int32_t next;
        bool merged = false;  // into the symbol before it
    };
    Result<void> read_unk(const Json& json, const std::string& where);
    void fill_tables();
    void first_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
    [[nodiscard]] int32_t whole_word(std::string_view word) const;

    Vocabulary vocabulary_;
    MergeTable merges_;
    int32_t unk_ = -1;
    bool byte_level_ = false;
    bool fuse_unk_ = false;
    bool byte_fallback_ = false;
    bool cuts_at_spaces_ = false;  // a long word is encoded in parts, which makes the same tokens
    bool ignore_merges_ = false;   // a word that is a piece is that token, whatever the merges make of it
    // Tokens of single bytes: where byte_level_ their characters, else ASCII characters; -1 where there is none.
    std::array<int32_t, 256> byte_tokens_{};
    std::array<int32_t, 256> fallback_tokens_{};  // <0x00> to <0xFF>
};

// Encodes words and remembers short ones, since most words of a text come again. For one thread.
class Bpe::Encoder {
  public:
    // `text_bytes`: about how much will be encoded. `bpe` must outlive this.
    Encoder(const Bpe& bpe, size_t text_bytes);

    // Appends the tokens of `word`, which is not empty and less than 2 GiB.
    void encode(std::string_view word, std::vector<int32_t>& tokens);

  private:
    static constexpr size_t kMaxWordBytes = 24;
    static constexpr size_t kMaxTokens = 8;
    struct Known {
        uint8_t length = 0;  // of the word; 0 where nothing is known yet
        uint8_t count = 0;
        std::array<char, kMaxWordBytes> word;
        std::array<int32_t, kMaxTokens> tokens;
    };
    struct Candidate {
        int32_t rank;
        int32_t place;
        int32_t merged;
        // The heap's front is the lowest rank and of these the leftmost.
        bool operator<(const Candidate& other) const {
            return rank != other.rank ? rank > other.rank : place > other.place;
        }
    };
    void encode_part(std::string_view word, std::vector<int32_t>& tokens);
    void merge(std::string_view word, std::vector<int32_t>& tokens);
    void consider(int32_t place);
    void apply(const Candidate& candidate);

    const Bpe* bpe_;
    std::vector<Known> known_;  // a power of two of them
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
};

}  // namespace nanolith
