// Tiling: one, two or four rows of x by one or two strips of 16 outputs; a lane of a vector is an output. The sums of a
// group of 16 or 32 columns are multiplied by the group's scales, and added to those of the groups before.
//
// Bytes: a weight is 0.56 to 1.1 bytes, and is read from memory once for four rows of x. Each line of codes is fetched
// kAhead bytes before it is used.
//
// Instructions, for codes of 4 bits:
// - rows stored as bytes (AVX-512 VNNI): a vector has 128 codes. It takes one load, three instructions to separate the
//   codes and, for each row of x, four multiply-adds of four codes with four bytes of x in each lane. With two strips
//   that is 0.08 instructions a weight;
// - rows stored as words: a vector of 8 lanes has 64 codes. It takes one load, six instructions to separate the codes
//   and, for each row of x, four multiplications of pairs and four additions: 0.3 instructions a weight;
// - rows of float32: each code is shifted, masked, converted and, for each row of x, multiplied.
//
// A product of one row is bound by memory, one of more rows by the multipliers.
#include "backend/cpu/compact_products.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/compact_strip.h"
#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

constexpr int64_t kAhead = 2048;  // bytes of a strip between a line that is read and the one that is fetched

template <int Lanes>
struct PairTypes {
    typedef int16_t Shorts __attribute__((vector_size(Lanes * 4)));
    typedef uint16_t Halves __attribute__((vector_size(Lanes * 4)));
};

// The sums of products of pairs of integers of 16 bits.
template <int Lanes>
NL_INLINE Ints<Lanes> multiply_pairs(Words<Lanes> a, Words<Lanes> b) {
#if defined(__x86_64__) && !defined(__clang__)
    using Shorts = typename PairTypes<Lanes>::Shorts;
    const auto short_a = reinterpret_cast<Shorts>(a);
    const auto short_b = reinterpret_cast<Shorts>(b);
    if constexpr (Lanes == 4) return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_pmaddwd128(short_a, short_b));
    if constexpr (Lanes == 8) return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_pmaddwd256(short_a, short_b));
    if constexpr (Lanes == 16)
        return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_pmaddwd512_mask(short_a, short_b, Ints<16>{}, 0xFFFF));
#endif
    const auto wide_a = reinterpret_cast<Ints<Lanes>>(a);
    const auto wide_b = reinterpret_cast<Ints<Lanes>>(b);
    return (reinterpret_cast<Ints<Lanes>>(a << 16) >> 16) * (reinterpret_cast<Ints<Lanes>>(b << 16) >> 16) +
           (wide_a >> 16) * (wide_b >> 16);
}

// a + b. GCC would put off additions until all products are there, more than there are registers for.
template <int Lanes>
NL_INLINE Ints<Lanes> add_now(Ints<Lanes> a, Ints<Lanes> b) {
    Ints<Lanes> sum = a + b;
#if defined(__x86_64__) && !defined(__clang__)
    asm("" : "+v"(sum));
#endif
    return sum;
}

// The sums, and to each the products of four codes (bytes that are not negative) with four bytes of x.
template <int Lanes>
NL_INLINE Ints<Lanes> add_bytes(Ints<Lanes> sums, Words<Lanes> codes, Words<Lanes> x) {
#if defined(__x86_64__) && !defined(__clang__)
    static_assert(Lanes == 16);
    typedef int Ints16 __attribute__((vector_size(64)));
    return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_vpdpbusd_v16si(
        reinterpret_cast<Ints16>(sums), reinterpret_cast<Ints16>(codes), reinterpret_cast<Ints16>(x)));
#else
    for (int byte = 0; byte < 4; ++byte) {
        const auto signed_x = reinterpret_cast<Ints<Lanes>>(x << (24 - 8 * byte)) >> 24;
        sums += reinterpret_cast<Ints<Lanes>>((codes >> (8 * byte)) & 0xFFU) * signed_x;
    }
    return sums;
#endif
}

// sum + a * b, rounded once where the level of instructions has that. Whether a compiler fuses the plain expression
// depends on the code around it, but a row must not depend on how many others are computed beside it.
template <int Lanes>
NL_INLINE Vec<Lanes> add_product(Vec<Lanes> sum, Vec<Lanes> a, Vec<Lanes> b) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes == 16) return __builtin_ia32_vfmaddps512_mask(a, b, sum, 0xFFFF, 4);
    if constexpr (Lanes == 8) return __builtin_ia32_vfmaddps256(a, b, sum);
#endif
    return sum + a * b;
}

// The 32 bits at `from` in all lanes. GCC brings them through a general register, or takes vectors apart in memory.
template <int Lanes>
NL_INLINE Words<Lanes> broadcast_word(const float* from) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes >= 8) {
        Words<Lanes> words;
        asm("vpbroadcastd %1, %0" : "=v"(words) : "m"(*from));
        return words;
    }
#endif
    uint32_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    return Words<Lanes>{} + word;
}

// Rows of x by strips that lie `apart` bytes from each other.
template <int Lanes, int Rows, int Strips, CodeKind Kind, int Group, RowKind Row>
class Tile {
  public:
    NL_INLINE Tile(const CompactProducts& of, const std::byte* strips, int64_t apart, const float* x)
        : of_(of), apart_(apart), x_stride_(spread_size(of.depth, Row)) {
        const int64_t whole = block_bytes(of.form, kCompactBlock);
        for (int64_t k = 0; k < of.depth; k += kCompactBlock) {
            add_block(strips, x, block_size(of.depth, k / kCompactBlock) / Group);
            strips += whole;
            x += spread_block(Row);
        }
    }

    // y[r][first + n] (+)= the sums, times the row's scales, of the `outputs` outputs of a strip that there are.
    NL_INLINE void store_strip(int strip, const float* row_scales, int64_t outputs, float* y) const {
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            alignas(64) float totals[kStrip];
            NL_UNROLL for (int v = 0; v < kPerStrip; ++v) {
                const Vec<Lanes> total = load<Lanes>(row_scales + v * Lanes) * sums_[r][strip * kPerStrip + v];
                store<Lanes>(totals + v * Lanes, total);
            }
            float* const to = y + r * of_.y_stride;
            if (outputs < kStrip) {
                for (int64_t n = 0; n < outputs; ++n) to[n] = of_.accumulate ? to[n] + totals[n] : totals[n];
                continue;
            }
            NL_UNROLL for (int v = 0; v < kPerStrip; ++v) {
                const Vec<Lanes> total = load<Lanes>(totals + v * Lanes);
                store<Lanes>(to + v * Lanes, of_.accumulate ? load<Lanes>(to + v * Lanes) + total : total);
            }
        }
    }

  private:
    static constexpr int kPerStrip = kStripVectors<Lanes>;
    static constexpr int kVectors = Strips * kPerStrip;
    static constexpr bool kFixed = Row != RowKind::floats;
    static constexpr int kColumns = static_cast<int>(line_columns(Kind));  // of a line
    static constexpr int kLines = Group / kColumns;                        // of a group
    static constexpr int kParts = Group / static_cast<int>(kLeastCompactGroup);

    // Vector v of the tile: where its strip begins, in bytes behind the first strip, and its first row in the strip.
    NL_INLINE int64_t strip_at(int v) const { return v / kPerStrip * apart_; }
    static constexpr int64_t lane_of(int v) { return v % kPerStrip * Lanes; }

    NL_INLINE void add_block(const std::byte* block, const float* x, int64_t groups) {
        const std::byte* codes = block + scale_bytes(of_.form, groups);
        const float* const facts = x + spread_block(Row) - kRowFacts;
        for (int64_t g = 0; g < groups; ++g) {
            Vec<Lanes> added[Rows][kVectors];
            if constexpr (kFixed) {
                multiply_integers(codes, x, facts, g, added);
                x += Group / 2;
            } else {
                multiply_floats(codes, x, facts, g, added);
                x += Group;
            }
            scale_group(block, facts, groups, g, added);
            codes += kLines * kLine;
        }
    }

    // The facts of the same block of row r of x, where `facts` are those of row 0.
    NL_INLINE const RowFacts& facts_of(const float* facts, int r) const {
        return *reinterpret_cast<const RowFacts*>(facts + r * x_stride_);
    }
    // A fact of group g: RowFacts has it for each 16 columns, of which a group has one or two.
    template <typename T>
    static NL_INLINE T total_of(const T (&parts)[kMostCompactGroups], int64_t g) {
        return kParts == 1 ? parts[g] : parts[2 * g] + parts[2 * g + 1];
    }

    NL_INLINE void scale_group(const std::byte* block, const float* facts, int64_t groups, int64_t g,
                               const Vec<Lanes> (&added)[Rows][kVectors]) {
        NL_UNROLL for (int v = 0; v < kVectors; ++v) {
            const std::byte* const strip = block + strip_at(v);
            const Vec<Lanes> scales = group_scales<Lanes>(of_.form, strip, g, lane_of(v));
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                const Vec<Lanes> of_row = kFixed ? scales * facts_of(facts, r).steps[g * kParts] : scales;
                sums_[r][v] = add_product<Lanes>(sums_[r][v], of_row, added[r][v]);
            }
            if (!of_.form.mins) continue;
            const Vec<Lanes> mins = group_mins<Lanes>(of_.form, strip, groups, g, lane_of(v));
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                const Vec<Lanes> total = broadcast<Lanes>(-total_of(facts_of(facts, r).sums, g));
                sums_[r][v] = add_product<Lanes>(sums_[r][v], mins, total);
            }
        }
    }

    NL_INLINE void load_line(const std::byte* line, Words<Lanes> (&words)[kVectors]) const {
        NL_UNROLL for (int v = 0; v < kVectors; ++v) {
            const std::byte* const at = line + strip_at(v);
            if (v % kPerStrip == 0) __builtin_prefetch(at + kAhead);
            words[v] = load_as<Words<Lanes>>(at + 4 * lane_of(v));
        }
    }

    NL_INLINE void multiply_integers(const std::byte* codes, const float* x, const float* facts, int64_t g,
                                     Vec<Lanes> (&added)[Rows][kVectors]) const {
        const int32_t zero = of_.form.zero + (Kind == CodeKind::int8 ? kInt8Zero : 0);
        Ints<Lanes> totals[Rows][kVectors];
        Ints<Lanes> highs[Rows][kVectors];
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const Ints<Lanes> less = Ints<Lanes>{} - zero * total_of(facts_of(facts, r).totals, g);
            NL_UNROLL for (int v = 0; v < kVectors; ++v) totals[r][v] = less, highs[r][v] = Ints<Lanes>{};
        }
        NL_UNROLL for (int line = 0; line < kLines; ++line) {
            Words<Lanes> words[kVectors];
            load_line(codes + line * kLine, words);
            NL_UNROLL for (int four = 0; four < kColumns / 4; ++four) {
                const float* const numbers = x + (line * kColumns + four * 4) / 2;
                if constexpr (Row == RowKind::bytes) {
                    add_four_bytes(words, four, numbers, totals, highs);
                } else {
                    add_four_words(words, four, numbers, totals);
                }
            }
        }
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            NL_UNROLL for (int v = 0; v < kVectors; ++v) {
                const Ints<Lanes> total = Row == RowKind::bytes ? totals[r][v] + highs[r][v] * 256 : totals[r][v];
                added[r][v] = __builtin_convertvector(total, Vec<Lanes>);
            }
        }
    }

    // Word i behind `numbers` in row r of x, in all lanes.
    NL_INLINE Words<Lanes> numbers_of(const float* numbers, int r, int i) const {
        return broadcast_word<Lanes>(numbers + r * x_stride_ + i);
    }

    // Adds the products of four columns with bytes of x. `four` is 0 for the first four columns of a line; it is 1 for
    // the other four of a line of 4-bit codes, which are the upper halves of its bytes.
    NL_INLINE void add_four_bytes(const Words<Lanes> (&words)[kVectors], int four, const float* numbers,
                                  Ints<Lanes> (&totals)[Rows][kVectors], Ints<Lanes> (&highs)[Rows][kVectors]) const {
        Words<Lanes> codes[kVectors];
        NL_UNROLL for (int v = 0; v < kVectors; ++v) codes[v] =
            Kind == CodeKind::bits4 ? (four == 0 ? words[v] : words[v] >> 4) & 0x0F0F0F0FU : words[v];
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const Words<Lanes> high = numbers_of(numbers, r, 0);
            const Words<Lanes> low = numbers_of(numbers, r, 1);
            NL_UNROLL for (int v = 0; v < kVectors; ++v) {
                highs[r][v] = add_bytes<Lanes>(highs[r][v], codes[v], high);
                totals[r][v] = add_bytes<Lanes>(totals[r][v], codes[v], low);
            }
        }
    }
    NL_INLINE void add_four_words(const Words<Lanes> (&words)[kVectors], int four, const float* numbers,
                                  Ints<Lanes> (&totals)[Rows][kVectors]) const {
        using Halves = typename PairTypes<Lanes>::Halves;
        NL_UNROLL for (int pair = 0; pair < 2; ++pair) {  // columns 0 and 2, then 1 and 3
            Words<Lanes> codes[kVectors];
            NL_UNROLL for (int v = 0; v < kVectors; ++v) {
                const int shift = 8 * pair + 4 * four;
                const auto moved = reinterpret_cast<Halves>(words[v]) >> shift;
                constexpr uint16_t kMask = Kind == CodeKind::bits4 ? 0x0F : 0xFF;
                const bool highest = shift + (Kind == CodeKind::bits4 ? 4 : 8) == 16;
                codes[v] = reinterpret_cast<Words<Lanes>>(highest ? moved : moved & kMask);
            }
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                const Words<Lanes> two = numbers_of(numbers, r, pair);
                NL_UNROLL for (int v = 0; v < kVectors; ++v) totals[r][v] =
                    add_now<Lanes>(totals[r][v], multiply_pairs<Lanes>(codes[v], two));
            }
        }
    }

    NL_INLINE void multiply_floats(const std::byte* codes, const float* x, const float* facts, int64_t g,
                                   Vec<Lanes> (&added)[Rows][kVectors]) const {
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const float less = -static_cast<float>(of_.form.zero) * total_of(facts_of(facts, r).sums, g);
            NL_UNROLL for (int v = 0; v < kVectors; ++v) added[r][v] = broadcast<Lanes>(less);
        }
        NL_UNROLL for (int line = 0; line < kLines; ++line) {
            Words<Lanes> words[kVectors];
            load_line(codes + line * kLine, words);
            NL_UNROLL for (int column = 0; column < kColumns; ++column) {
                NL_UNROLL for (int v = 0; v < kVectors; ++v) {
                    const Vec<Lanes> of_column = codes_of_column<Lanes, Kind>(words[v], column);
                    NL_UNROLL for (int r = 0; r < Rows; ++r) {
                        const Vec<Lanes> number = broadcast<Lanes>(x[r * x_stride_ + line * kColumns + column]);
                        added[r][v] = add_product<Lanes>(added[r][v], of_column, number);
                    }
                }
            }
        }
    }

    const CompactProducts& of_;
    const int64_t apart_;  // bytes
    const int64_t x_stride_;
    Vec<Lanes> sums_[Rows][kVectors] = {};
};

// Rows of x from `row` on by `Strips` strips, which lie `apart` strips from each other.
template <int Lanes, int Rows, int Strips, CodeKind Kind, int Group, RowKind Row>
NL_INLINE void tile(const CompactProducts& of, int64_t row, int64_t outputs, int64_t strip, int64_t apart) {
    const int64_t bytes = strip_bytes(of.form, of.depth);
    const Tile<Lanes, Rows, Strips, Kind, Group, Row> tile(of, of.strips + strip * bytes, apart * bytes,
                                                           of.x + row * spread_size(of.depth, Row));
    NL_UNROLL for (int i = 0; i < Strips; ++i) {
        const int64_t first = (strip + i * apart) * kStrip;
        tile.store_strip(i, of.row_scales + first, std::min(kStrip, outputs - first), of.y + row * of.y_stride + first);
    }
}

template <int Lanes, int Rows, int Strips, CodeKind Kind, int Group, RowKind Row>
NL_INLINE void some_rows(const CompactProducts& of, int64_t row, int64_t outputs) {
    const int64_t strips = strips_of(outputs);
    const int64_t apart = strips / Strips;
    for (int64_t i = 0; i < apart; ++i) tile<Lanes, Rows, Strips, Kind, Group, Row>(of, row, outputs, i, apart);
    if constexpr (Strips > 1) {
        for (int64_t i = Strips * apart; i < strips; ++i)
            tile<Lanes, Rows, 1, Kind, Group, Row>(of, row, outputs, i, 0);
    }
}

// As many rows and strips at a time as there are registers for.
template <int Lanes, CodeKind Kind, int Group>
NL_INLINE void float_rows(const CompactProducts& of, int64_t rows, int64_t outputs) {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) some_rows<Lanes, 4, 1, Kind, Group, RowKind::floats>(of, row, outputs);
    for (; row < rows; ++row) some_rows<Lanes, 1, Lanes == 4 ? 1 : 2, Kind, Group, RowKind::floats>(of, row, outputs);
}
template <int Lanes, CodeKind Kind, int Group, RowKind Row>
NL_INLINE void integer_rows(const CompactProducts& of, int64_t rows, int64_t outputs) {
    constexpr bool kManyRegisters = Lanes == 16;
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) some_rows<Lanes, 4, kManyRegisters ? 2 : 1, Kind, Group, Row>(of, row, outputs);
    for (; row + 2 <= rows; row += 2) some_rows<Lanes, 2, kManyRegisters ? 2 : 1, Kind, Group, Row>(of, row, outputs);
    if (row < rows) some_rows<Lanes, 1, 2, Kind, Group, Row>(of, row, outputs);
}

// One function for each kind of product and level of instructions.
#define NL_WORDS_KIND(name, kind, group)                                                   \
    template <int Lanes>                                                                   \
    NL_INLINE void name##_body(const CompactProducts& of, int64_t rows, int64_t outputs) { \
        integer_rows<Lanes, kind, group, RowKind::words>(of, rows, outputs);               \
    }                                                                                      \
    NL_DISPATCH(name, (const CompactProducts& of, int64_t rows, int64_t outputs), (of, rows, outputs))
#define NL_FLOATS_KIND(name, kind, group)                                                  \
    template <int Lanes>                                                                   \
    NL_INLINE void name##_body(const CompactProducts& of, int64_t rows, int64_t outputs) { \
        float_rows<Lanes, kind, group>(of, rows, outputs);                                 \
    }                                                                                      \
    NL_DISPATCH(name, (const CompactProducts& of, int64_t rows, int64_t outputs), (of, rows, outputs))
#define NL_BYTES_KIND(name, kind, group)                                                    \
    NL_TARGET_V4_VNNI void name(const CompactProducts& of, int64_t rows, int64_t outputs) { \
        integer_rows<16, kind, group, RowKind::bytes>(of, rows, outputs);                   \
    }

NL_WORDS_KIND(words_bits4_by_16, CodeKind::bits4, 16)
NL_WORDS_KIND(words_bits4_by_32, CodeKind::bits4, 32)
NL_WORDS_KIND(words_int8_by_16, CodeKind::int8, 16)
NL_WORDS_KIND(words_int8_by_32, CodeKind::int8, 32)
NL_BYTES_KIND(bytes_bits4_by_16, CodeKind::bits4, 16)
NL_BYTES_KIND(bytes_bits4_by_32, CodeKind::bits4, 32)
NL_BYTES_KIND(bytes_int8_by_16, CodeKind::int8, 16)
NL_BYTES_KIND(bytes_int8_by_32, CodeKind::int8, 32)
NL_FLOATS_KIND(floats_bits4_by_16, CodeKind::bits4, 16)
NL_FLOATS_KIND(floats_bits4_by_32, CodeKind::bits4, 32)
NL_FLOATS_KIND(floats_int8_by_16, CodeKind::int8, 16)
NL_FLOATS_KIND(floats_int8_by_32, CodeKind::int8, 32)
NL_FLOATS_KIND(floats_e4m3, CodeKind::e4m3, 32)

}  // namespace

void compact_products(const CompactProducts& of, int64_t rows, int64_t outputs) {
    const bool small = of.form.group == 16;
    const bool bits4 = of.form.codes == CodeKind::bits4;
    switch (of.kind) {
        case RowKind::bytes:
            if (bits4) return small ? bytes_bits4_by_16(of, rows, outputs) : bytes_bits4_by_32(of, rows, outputs);
            return small ? bytes_int8_by_16(of, rows, outputs) : bytes_int8_by_32(of, rows, outputs);
        case RowKind::words:
            if (bits4) return small ? words_bits4_by_16(of, rows, outputs) : words_bits4_by_32(of, rows, outputs);
            return small ? words_int8_by_16(of, rows, outputs) : words_int8_by_32(of, rows, outputs);
        case RowKind::floats:
            if (of.form.codes == CodeKind::e4m3) return floats_e4m3(of, rows, outputs);
            if (bits4) return small ? floats_bits4_by_16(of, rows, outputs) : floats_bits4_by_32(of, rows, outputs);
            return small ? floats_int8_by_16(of, rows, outputs) : floats_int8_by_32(of, rows, outputs);
    }
}

}  // namespace nanolith::cpu
