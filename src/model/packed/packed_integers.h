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
    [[nodiscard]] int64_t word_bytes() const { return shared_by == SharedBy::none ? 1 : 4; }
    // The shape of the tensor.
    [[nodiscard]] std::array<int64_t, 2> shape() const { return transposed ? std::array{words[1], words[0]} : words; }
    [[nodiscard]] int64_t size() const { return words[0] * words[1] * word_bytes(); }
};

// `bits`: 4 or 8.
constexpr PackedIntegers pack_integers(int64_t rows, int64_t cols, int32_t bits, SharedBy shared_by, bool transposed) {
    const int64_t in_word = 32 / bits;
    PackedIntegers packed{.shared_by = shared_by, .bits = bits, .transposed = transposed, .words = {rows, cols}};
    if (shared_by == SharedBy::row) packed.words[1] = (cols + in_word - 1) / in_word;
    if (shared_by == SharedBy::column) packed.words[0] = (rows + in_word - 1) / in_word;
    return packed;
}

// to[i] = integer (row, first + i), i < count. word_at(i) gives word i of the tensor as uint32_t.
template <typename WordAt>
void unpack_integers(const PackedIntegers& from, int64_t row, int64_t first, int64_t count, const WordAt& word_at,
                     int32_t* to) {
    const int64_t row_stride = from.transposed ? 1 : from.words[1];
    const int64_t col_stride = from.transposed ? from.words[0] : 1;
    const int32_t shift = from.bits == 4 ? 3 : 2;  // 2^shift integers in a word
    const int64_t last = (1 << shift) - 1;
    const auto take = [&](int64_t word, int64_t place) {
        if (from.interleaved) place = place / 2 + (place % 2) * (last + 1) / 2;
        const uint32_t bits = (word_at(word) + from.added) >> (from.bits * static_cast<int32_t>(place));
        return static_cast<int32_t>(bits & ((1U << from.bits) - 1));
    };
    switch (from.shared_by) {
        case SharedBy::row:
            for (int64_t col = first; col < first + count; ++col)
                *to++ = take(row * row_stride + (col >> shift) * col_stride, col & last);
            return;
        case SharedBy::column:
            for (int64_t col = first; col < first + count; ++col)
                *to++ = take((row >> shift) * row_stride + col * col_stride, row & last);
            return;
        case SharedBy::none:
            for (int64_t col = first; col < first + count; ++col)
                *to++ = static_cast<int8_t>(word_at(row * row_stride + col * col_stride));
            return;
    }
}

}  // namespace nanolith
