// Integers of 4 or 8 bits, several in a word, as quantised checkpoints store a matrix of codes or of zero points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nanolith {

// Which integers of the matrix [rows, cols] share a word: neighbours in a row, neighbours in a column, or none.
enum class SharedBy : uint8_t { row, column, none };

// Where the integers of a matrix [rows, cols] are in a tensor of words. A word is an int32, little-endian, with 32 /
// bits unsigned integers, the first one in the lowest bits; or, with SharedBy::none, a byte with one signed integer.
struct PackedIntegers {
    SharedBy shared_by = SharedBy::row;
    int32_t bits = 4;  // 4 or 8
    bool transposed = false;
    bool interleaved = false;           // a word's integers 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on, as in AWQ
    uint32_t added = 0;                 // to each word before it is taken apart
    std::array<int64_t, 2> words = {};  // [rows, cols] of the matrix of words
    // The shape of the tensor.
    [[nodiscard]] std::array<int64_t, 2> shape() const { return transposed ? std::array{words[1], words[0]} : words; }
};

// `bits`: 4 or 8.
constexpr PackedIntegers pack_integers(int64_t rows, int64_t cols, int32_t bits, SharedBy shared_by, bool transposed) {
    const int64_t in_word = 32 / bits;
    PackedIntegers packed{.shared_by = shared_by, .bits = bits, .transposed = transposed, .words = {rows, cols}};
    if (shared_by == SharedBy::row) packed.words[1] = (cols + in_word - 1) / in_word;
    if (shared_by == SharedBy::column) packed.words[0] = (rows + in_word - 1) / in_word;
    return packed;
}

// Takes the integers of `kBits` bits out of words. `word_at(i)` gives word i of the tensor as uint32_t.
template <int kBits, typename WordAt>
class WordReader {
  public:
    static constexpr int kInWord = 32 / kBits;

    WordReader(const PackedIntegers& from, const WordAt& word_at)
        : from_(from),
          word_at_(word_at),
          row_stride_(from.transposed ? 1 : from.words[1]),
          col_stride_(from.transposed ? from.words[0] : 1) {}

    // to[i] = integer (row, first + i) + shift, i < count.
    void read(int64_t row, int64_t first, int64_t count, int32_t shift, int8_t* to) const {
        return from_.shared_by == SharedBy::row ? read_words(row * row_stride_, first, count, shift, to)
                                                : read_places(row, first, count, shift, to);
    }

  private:
    // Of a row whose neighbours share words, and whose first word is `begin`.
    void read_words(int64_t begin, int64_t first, int64_t count, int32_t shift, int8_t* to) const {
        for (int64_t col = first; col < first + count;) {
            const uint32_t word = word_at_(begin + col / kInWord * col_stride_) + from_.added;
            if (col % kInWord == 0 && col + kInWord <= first + count) {
                for (int place = 0; place < kInWord; ++place) to[place] = integer(word, place, shift);
                to += kInWord;
                col += kInWord;
            } else {
                *to++ = integer(word, static_cast<int>(col % kInWord), shift);
                ++col;
            }
        }
    }
    // Of a row that has the same place in each word.
    void read_places(int64_t row, int64_t first, int64_t count, int32_t shift, int8_t* to) const {
        int64_t word = row / kInWord * row_stride_ + first * col_stride_;
        auto place = static_cast<int>(row % kInWord);
        if (from_.interleaved) place = place / 2 + place % 2 * kInWord / 2;
        for (int64_t i = 0; i < count; ++i, word += col_stride_)
            to[i] = integer(word_at_(word) + from_.added, place, shift);
    }
    static int8_t integer(uint32_t word, int place, int32_t shift) {
        constexpr uint32_t kMask = (1U << kBits) - 1;
        return static_cast<int8_t>(static_cast<int32_t>(word >> (kBits * place) & kMask) + shift);
    }

    const PackedIntegers& from_;
    const WordAt& word_at_;
    const int64_t row_stride_;
    const int64_t col_stride_;
};

// to[i] = integer (row, first + i) + shift, i < count, of a tensor that `load(first byte, bytes, to)` reads. It must
// fit an int8.
template <typename Load>
void unpack_integers(const PackedIntegers& from, int64_t row, int64_t first, int64_t count, int32_t shift,
                     const Load& load, int8_t* to) {
    if (from.shared_by == SharedBy::none) {
        for (int64_t i = 0; i < count; ++i) {
            int8_t byte = 0;
            load(from.transposed ? (first + i) * from.words[0] + row : row * from.words[1] + first + i, 1, &byte);
            to[i] = static_cast<int8_t>(byte + shift);
        }
        return;
    }
    const auto word_at = [&](int64_t i) {
        uint32_t word = 0;
        load(i * 4, 4, &word);
        return word;
    };
    if (from.bits == 4) return WordReader<4, decltype(word_at)>(from, word_at).read(row, first, count, shift, to);
    WordReader<8, decltype(word_at)>(from, word_at).read(row, first, count, shift, to);
}

}  // namespace nanolith
