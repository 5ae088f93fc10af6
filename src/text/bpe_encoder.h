// How a byte-pair encoding encodes words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace nanolith {

// Symbols in a row, of which each may be merged into the one before it. Takes little more than 4 bytes a symbol, since
// a word may be as long as a text.
class SymbolRow {
  public:
    // The symbols to begin with; each place keeps its number.
    std::vector<int32_t>& symbols() { return symbols_; }
    // Must follow a change of symbols().
    void start();

    [[nodiscard]] int32_t size() const { return static_cast<int32_t>(symbols_.size()); }
    [[nodiscard]] int32_t at(int32_t place) const { return symbols_[static_cast<size_t>(place)]; }
    // Whether a symbol still begins at `place`.
    [[nodiscard]] bool begins(int32_t place) const { return (begins_[word_of(place)] >> bit_of(place) & 1U) != 0; }
    // The places of the symbols after and before that at `place`, -1 where there is none.
    [[nodiscard]] int32_t next(int32_t place) const;
    [[nodiscard]] int32_t previous(int32_t place) const;

    // The symbol at `place` becomes `symbol`, and the one at `next` a part of it.
    void merge(int32_t place, int32_t next, int32_t symbol) {
        symbols_[static_cast<size_t>(place)] = symbol;
        begins_[word_of(next)] &= ~(uint64_t{1} << bit_of(next));
    }
    // Gives back the memory of a long row.
    void shrink();

  private:
    static size_t word_of(int32_t place) { return static_cast<size_t>(place) / 64; }
    static unsigned bit_of(int32_t place) { return static_cast<unsigned>(place) % 64; }

    std::vector<int32_t> symbols_;
    std::vector<uint64_t> begins_;  // a bit a place
};

// Remembers short words, since most words of a text come again.
class Bpe::Encoder final : public TokenModel::Encoder {
  public:
    Encoder(const Bpe& bpe, size_t text_bytes);
    [[nodiscard]] Result<void> encode(std::string_view word, std::vector<int32_t>& tokens) override;

  private:
    static constexpr size_t kMaxWordBytes = 24;
    static constexpr size_t kMaxTokens = 8;
    struct Known {
        uint8_t length = 0;  // of the word; 0 where nothing is known yet
        uint8_t count = 0;
        std::array<char, kMaxWordBytes> word;
        std::array<int32_t, kMaxTokens> tokens;
    };
    // A merge of the symbol at `place` with the next one.
    struct Candidate {
        int32_t rank;
        int32_t place;
        // The heap's front is the lowest rank and of these the leftmost.
        bool operator<(const Candidate& other) const {
            return rank != other.rank ? rank > other.rank : place > other.place;
        }
    };
    void encode_part(std::string_view word, std::vector<int32_t>& tokens);
    void merge(std::string_view word, std::vector<int32_t>& tokens);
    // The merge at `place` as the symbols are now; null where there is none.
    [[nodiscard]] const MergeTable::Merge* merge_at(int32_t place) const;
    // Whether the symbols have not changed since, or to the same effect.
    [[nodiscard]] bool holds(const Candidate& candidate) const;
    void fill_heap();
    void push(int32_t place);
    void make_room_in_heap();
    void apply(int32_t place);

    const Bpe* bpe_;
    std::vector<Known> known_;  // a power of two of them
    SymbolRow row_;
    std::vector<Candidate> heap_;
};

}  // namespace nanolith
