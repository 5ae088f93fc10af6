// Tiling: one, two or four rows of x by four, two or one outputs. Each pair of row and output has a vector of sums;
// what a group of 16 or 32 weights adds is summed apart and multiplied by the group's scale. The scales of a few blocks
// are widened before their codes, so that codes need not wait for them.
//
// The weights are read once for four rows, 0.56 to 1.1 bytes each. Beside 16-bit rows, 64 codes of 4 bits take six
// instructions to widen, four multiplications that add pairs, two additions, two conversions and two multiply-adds for
// 8 lanes: a quarter of an instruction a weight. Beside float32 rows a code is masked where it lies, converted and
// multiplied: three instructions for 8 weights. One row is bound by memory, or nearly so; more rows by the multipliers.
// The minimums take one multiply-add for 8 groups, since the sums of x by groups are known.
#include "backend/cpu/compact_products.h"

#if defined(__x86_64__)
#include <immintrin.h>  // declares the builtin functions
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

template <int Lanes>
using Words = typename SimdTypes<Lanes>::Words;
template <int Lanes>
using Ints = typename SimdTypes<Lanes>::Ints;

template <int Lanes>
struct NarrowTypes {
    typedef int8_t Bytes __attribute__((vector_size(Lanes)));
    typedef int16_t Shorts __attribute__((vector_size(Lanes * 2)));
    typedef uint16_t Halves __attribute__((vector_size(Lanes * 2)));
};
template <int Lanes>
using Shorts = typename NarrowTypes<Lanes>::Shorts;

constexpr int kRun = 16;   // consecutive codes at one place of 16-bit words
constexpr int kUnit = 64;  // codes that are read at a time

// The codes of a word of 16 bits.
template <CodeKind Kind>
constexpr int kPlaces = Kind == CodeKind::bits4 ? 4 : 2;

// What a code's widened value must be multiplied by beside float32. Codes of 8 bits are widened as the upper bits of a
// word.
template <CodeKind Kind>
constexpr float kCodeUnit = Kind == CodeKind::int8 ? 0x1p-24F : 1;

// The bits of a Float8E4M3 in a float32: its sign, exponent and fraction.
constexpr int32_t kE4M3Mask = static_cast<int32_t>(0x87F00000U);

// Beside float32, words of 32 bits are read: their lower halves have the even codes of a run, their upper halves the
// odd ones, and so x is ordered. Codes of 4 bits are masked in place, which makes them 16^i times as large at place i;
// the highest is shifted, since it would be a sign. With 16 lanes, words stand in both halves of a vector, those in the
// upper one shifted so that the odd codes are where the even ones are.
template <int Lanes>
constexpr float place_factor(int64_t run, bool odd) {
    constexpr int64_t kHalf = kPlaces<CodeKind::bits4>;
    const int64_t place = run % kHalf + (odd && Lanes < 16 ? kHalf : 0);
    float factor = 1;
    for (int64_t i = 0; i < place && place < 2 * kHalf - 1; ++i) factor *= 1.0F / 16;
    return factor;
}

// 64 codes.
template <int Lanes, CodeKind Kind>
struct Codes {
    static constexpr int kParts = kUnit / (kRun * kPlaces<Kind>);
    static constexpr int kLoads = Lanes < 8 ? 8 / Lanes : 1;  // of each part
    Words<Lanes> words[kParts * kLoads];

    NL_INLINE void load_from(const std::byte* from) {
        if constexpr (Lanes == 16) {
            constexpr Words<16> kMoves{0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16};
            NL_UNROLL for (int part = 0; part < kParts; ++part) {
                Words<8> half;
                std::memcpy(&half, from + part * sizeof(half), sizeof(half));
                words[part] =
                    __builtin_shufflevector(half, half, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7) >> kMoves;
            }
        } else {
            NL_UNROLL for (int i = 0; i < kParts * kLoads; ++i) {
                Words<Lanes> some;
                std::memcpy(&some, from + i * sizeof(some), sizeof(some));
                words[i] = some;
            }
        }
    }

    // Codes of a run in the order of x, from step * Lanes on, times what place_factor() and kCodeUnit undo.
    [[nodiscard]] NL_INLINE Vec<Lanes> widen(int run, int step) const {
        const int odd = step * Lanes / 8;
        const int place = run % kPlaces<Kind> + odd * kPlaces<Kind>;
        const Words<Lanes> word = words[run / kPlaces<Kind> * kLoads + step % kLoads];
        if constexpr (Kind == CodeKind::bits4) {
            const Words<Lanes> code = place == 7 ? word >> 28 : word & (15U << (4 * place));
            return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(code), Vec<Lanes>);
        } else {
            const Words<Lanes> upper = place == 3 ? word : word << (24 - 8 * place);
            if constexpr (Kind == CodeKind::int8) {
                const Words<Lanes> code = place == 0 ? upper : upper & 0xFF000000U;
                return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(code), Vec<Lanes>);
            } else {
                // As a float32 its exponent is 120 too small.
                const Ints<Lanes> moved = (reinterpret_cast<Ints<Lanes>>(upper) >> 4) & kE4M3Mask;
                return reinterpret_cast<Vec<Lanes>>(moved) * 0x1p120F;
            }
        }
    }

    // Codes of a run as integers of 16 bits, from 2 * step * Lanes on.
    [[nodiscard]] NL_INLINE Shorts<2 * Lanes> shorts(int run, int step) const {
        const auto word =
            reinterpret_cast<typename NarrowTypes<2 * Lanes>::Halves>(words[run / kPlaces<Kind> * kLoads + step]);
        const int place = run % kPlaces<Kind>;
        if constexpr (Kind == CodeKind::bits4) {
            const auto moved = place == 0 ? word : word >> (4 * place);
            return reinterpret_cast<Shorts<2 * Lanes>>(place == 3 ? moved : moved & 15);
        } else {
            return reinterpret_cast<Shorts<2 * Lanes>>(place == 0 ? word << 8 : word) >> 8;
        }
    }
};

// The sums of pairs of products.
template <int Lanes>
NL_INLINE Ints<Lanes> multiply_pairs(Shorts<2 * Lanes> a, Shorts<2 * Lanes> b) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes == 4) return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_pmaddwd128(a, b));
    if constexpr (Lanes == 8) return reinterpret_cast<Ints<Lanes>>(__builtin_ia32_pmaddwd256(a, b));
#endif
    const auto wide_a = reinterpret_cast<Ints<Lanes>>(a);
    const auto wide_b = reinterpret_cast<Ints<Lanes>>(b);
    return (wide_a << 16 >> 16) * (wide_b << 16 >> 16) + (wide_a >> 16) * (wide_b >> 16);
}

// Eight numbers of int8 or of float16 become float32 by one instruction, which GCC 12 does not find by itself.

// 16 bytes of which the first `Size` are read.
template <typename Vector, int Size>
NL_INLINE Vector load_first(const std::byte* from) {
    static_assert(sizeof(Vector) == 16);
    if constexpr (Size == 16) {
        Vector value;
        std::memcpy(&value, from, sizeof(value));
        return value;
    } else {
        typedef int64_t Pair __attribute__((vector_size(16)));
        Pair pair{};
        std::memcpy(&pair, from, Size);
        return reinterpret_cast<Vector>(pair);
    }
}

// Numbers of int8, in a kernel of so many lanes.
template <int Lanes, int Count>
NL_INLINE Vec<Count> load_int8(const std::byte* from) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes >= 8 && Count == 8) {
        typedef char Chars __attribute__((vector_size(16)));
        const auto ints = __builtin_ia32_pmovsxbd256(load_first<Chars, 8>(from));
        return __builtin_convertvector(reinterpret_cast<Ints<Count>>(ints), Vec<Count>);
    }
#endif
    typename NarrowTypes<Count>::Bytes bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    const auto shorts = __builtin_convertvector(bytes, Shorts<Count>);
    return __builtin_convertvector(__builtin_convertvector(shorts, Ints<Count>), Vec<Count>);
}

// Halves that are finite, in a kernel of so many lanes.
template <int Lanes, int Count>
NL_INLINE Vec<Count> load_halves(const std::byte* from) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes >= 8 && Count == 8) return __builtin_ia32_vcvtph2ps256(load_first<Shorts<8>, 16>(from));
    if constexpr (Lanes >= 8 && Count == 4) return __builtin_ia32_vcvtph2ps(load_first<Shorts<8>, 8>(from));
#endif
    typename SimdTypes<Count>::Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Words<Count> words = __builtin_convertvector(halves, Words<Count>);
    // As a float32 its exponent is 112 too small.
    const Words<Count> magnitude =
        reinterpret_cast<Words<Count>>(reinterpret_cast<Vec<Count>>((words & 0x7FFFU) << 13) * 0x1p112F);
    return reinterpret_cast<Vec<Count>>(magnitude | ((words & 0x8000U) << 16));
}

// The scales of a block's groups, and their minimums with what is subtracted from every code.
struct BlockScales {
    alignas(64) float scales[kMostCompactGroups];
    alignas(64) float mins[kMostCompactGroups];
};

// The same of some groups of a whole block, in vectors; a lane is a group.
template <int Count>
struct SomeScales {
    Vec<Count> scales;
    Vec<Count> mins;
};
// In a kernel of so many lanes: Count groups from `first` on, of Groups.
template <int Lanes, int Groups, int Count>
NL_INLINE SomeScales<Count> read_whole(const CompactForm& form, const std::byte* from, int first) {
    const auto zero = static_cast<float>(form.zero);
    if (form.scales == ScaleKind::two) {
        const Vec<4> of_block = load_halves<Lanes, 4>(from);  // the block's, its minimum, something else
        const Vec<Count> s = of_block[0] * load_int8<Lanes, Count>(from + 4 + first);
        if (!form.mins) return {s, zero * s};
        return {s, zero * s + of_block[1] * load_int8<Lanes, Count>(from + 4 + Groups + first)};
    }
    const Vec<Count> s = load_halves<Lanes, Count>(from + 2 * first);
    if (!form.mins) return {s, zero * s};
    return {s, zero * s + load_halves<Lanes, Count>(from + 2 * (Groups + first))};
}

// Of any number of groups. The others of the block are 0.
NL_INLINE void read_some(const CompactForm& form, const std::byte* from, int64_t groups, float unit, BlockScales& to) {
    const auto half_at = [from](int64_t i) {
        uint16_t bits = 0;
        std::memcpy(&bits, from + 2 * i, sizeof(bits));
        return half_to_float(bits);
    };
    const auto* const factors = reinterpret_cast<const int8_t*>(from) + 4;
    const bool two = form.scales == ScaleKind::two;
    for (int64_t g = 0; g < kMostCompactGroups; ++g) {
        float scale = 0;
        float min = 0;
        if (g < groups) {
            scale = two ? half_at(0) * static_cast<float>(factors[g]) : half_at(g);
            if (form.mins) min = two ? half_at(1) * static_cast<float>(factors[groups + g]) : half_at(groups + g);
        }
        to.scales[g] = unit * scale;
        to.mins[g] = min + static_cast<float>(form.zero) * scale;
    }
}

// Groups: of a whole block.
template <int Lanes, int Groups>
NL_INLINE void read_scales(const CompactForm& form, const std::byte* from, int64_t groups, float unit,
                           BlockScales& to) {
    constexpr int kCount = std::min(Lanes, Groups);
    if (form.scales == ScaleKind::none) {
        std::fill_n(to.scales, kMostCompactGroups, unit);
        std::fill_n(to.mins, kMostCompactGroups, static_cast<float>(form.zero));
    } else if (groups == Groups) {
        NL_UNROLL for (int g = 0; g < Groups; g += kCount) {
            const auto [scales, mins] = read_whole<Lanes, Groups, kCount>(form, from, g);
            store<kCount>(to.scales + g, unit * scales);
            store<kCount>(to.mins + g, mins);
        }
    } else {
        read_some(form, from, groups, unit, to);
    }
}

// Blocks whose scales are widened before their codes.
constexpr int64_t kBlocksAhead = 4;

// Rows of x by outputs that lie `apart` from each other.
template <int Lanes, int Rows, int Outputs, CodeKind Kind, int Group, bool Fixed>
class Tile {
  public:
    NL_INLINE Tile(const CompactProducts& of, int64_t first, int64_t apart, const float* x)
        : of_(of),
          weights_(of.weights + first * of.row_bytes),
          apart_(apart * of.row_bytes),
          x_(x),
          x_stride_(spread_size(of.depth, of.kind)) {}

    NL_INLINE void run() {
        const int64_t blocks = compact_blocks(of_.depth);
        const int64_t whole = block_bytes(of_.form, kCompactBlock);
        for (int64_t first = 0; first < blocks; first += kBlocksAhead) {
            const int64_t count = std::min(kBlocksAhead, blocks - first);
            for (int64_t b = 0; b < count; ++b)
                read_block(weights_ + (first + b) * whole, x_ + (first + b) * kBlock, groups_of(first + b), b);
            for (int64_t b = 0; b < count; ++b)
                add_block(weights_ + (first + b) * whole, x_ + (first + b) * kBlock, groups_of(first + b), b);
        }
    }
    [[nodiscard]] NL_INLINE float total(int r, int n) const { return sum<Lanes>(sums_[r][n]); }

  private:
    static constexpr int64_t kBlock = spread_block(Fixed ? RowKind::fixed : RowKind::beside_bytes);
    static constexpr int64_t kNumbers = kBlock - kRowFacts;  // float32 of a block's 256 numbers
    static constexpr int kGroups = static_cast<int>(kCompactBlock) / Group;
    static constexpr int kCount = Lanes < kGroups ? Lanes : kGroups;  // groups in a vector

    [[nodiscard]] NL_INLINE int64_t groups_of(int64_t block) const { return block_size(of_.depth, block) / Group; }

    // A block's scales, with the steps of x; and its minimums, which are done with then.
    NL_INLINE void read_block(const std::byte* block, const float* x, int64_t groups, int64_t b) {
        const float* const by_group = x + kNumbers + (Group == 16 ? 0 : 16);
        NL_UNROLL for (int n = 0; n < Outputs; ++n) {
            const std::byte* const from = block + n * apart_;
            if (groups == kGroups && of_.form.scales != ScaleKind::none) {
                NL_UNROLL for (int g = 0; g < kGroups; g += kCount) {
                    const auto [scales, mins] = read_whole<Lanes, kGroups, kCount>(of_.form, from, g);
                    take_scales(scales, mins, by_group, n, g, b);
                }
            } else {
                BlockScales some;
                read_scales<Lanes, kGroups>(of_.form, from, groups, 1, some);
                for (int g = 0; g < kGroups; g += kCount)
                    take_scales(load<kCount>(some.scales + g), load<kCount>(some.mins + g), by_group, n, g, b);
            }
        }
    }

    // Of groups from g on: `by_group` has the sums of x, and 24 further on its steps.
    NL_INLINE void take_scales(Vec<kCount> scales, Vec<kCount> mins, const float* by_group, int n, int g, int64_t b) {
        const bool has_mins = of_.form.mins || of_.form.zero != 0;
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const float* const facts = by_group + r * x_stride_ + g;
            if constexpr (Fixed) {
                store<kCount>(scales_[b][r][n] + g, scales * load<kCount>(facts + 24));
            } else {
                store<kCount>(scales_[b][r][n] + g, kCodeUnit<Kind> * scales);
            }
            if (has_mins) subtract<kCount>(mins * load<kCount>(facts), sums_[r][n]);
        }
    }

    template <int Less>
    static NL_INLINE void subtract(Vec<Less> less, Vec<Lanes>& from) {
        if constexpr (Less == Lanes) {
            from -= less;
        } else {
            from -= __builtin_shufflevector(less, Vec<Less>{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        }
    }

    NL_INLINE void add_block(const std::byte* block, const float* x, int64_t groups, int64_t b) {
        const std::byte* codes_at = block + scale_bytes(of_.form, groups);
        constexpr int kUnitGroups = kUnit / Group;
        for (int64_t unit = 0; unit < groups / kUnitGroups; ++unit) {
            Codes<Lanes, Kind> codes[Outputs];
            NL_UNROLL for (int n = 0; n < Outputs; ++n) codes[n].load_from(codes_at + n * apart_);
            NL_UNROLL for (int g = 0; g < kUnitGroups; ++g) {
                Vec<Lanes> added[Rows][Outputs];
                if constexpr (Fixed) {
                    fixed_group(codes, x + unit * (kUnit / 2), g, added);
                } else {
                    float_group(codes, x + unit * kUnit, g, added);
                }
                NL_UNROLL for (int n = 0; n < Outputs; ++n) {
                    NL_UNROLL for (int r = 0; r < Rows; ++r) sums_[r][n] +=
                        scales_[b][r][n][unit * kUnitGroups + g] * added[r][n];
                }
            }
            codes_at += code_bytes(of_.form, kUnit);
        }
    }

    NL_INLINE void float_group(const Codes<Lanes, Kind> (&codes)[Outputs], const float* x, int g,
                               Vec<Lanes> (&added)[Rows][Outputs]) {
        constexpr int kSteps = kRun / Lanes;
        NL_UNROLL for (int i = 0; i < Group / Lanes; ++i) {
            const int run = g * (Group / kRun) + i / kSteps;
            Vec<Lanes> w[Outputs];
            NL_UNROLL for (int n = 0; n < Outputs; ++n) w[n] = codes[n].widen(run, i % kSteps);
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                const Vec<Lanes> v = load<Lanes>(x + r * x_stride_ + g * Group + i * Lanes);
                NL_UNROLL for (int n = 0; n < Outputs; ++n) added[r][n] = i == 0 ? v * w[n] : added[r][n] + v * w[n];
            }
        }
    }

    NL_INLINE void fixed_group(const Codes<Lanes, Kind> (&codes)[Outputs], const float* x, int g,
                               Vec<Lanes> (&added)[Rows][Outputs]) {
        constexpr int kSteps = kRun / (2 * Lanes);
        Ints<Lanes> totals[Rows][Outputs];
        NL_UNROLL for (int i = 0; i < Group / (2 * Lanes); ++i) {
            const int run = g * (Group / kRun) + i / kSteps;
            Shorts<2 * Lanes> w[Outputs];
            NL_UNROLL for (int n = 0; n < Outputs; ++n) w[n] = codes[n].shorts(run, i % kSteps);
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                Shorts<2 * Lanes> v;
                std::memcpy(&v, x + r * x_stride_ + g * Group / 2 + i * Lanes, sizeof(v));
                NL_UNROLL for (int n = 0; n < Outputs; ++n) {
                    const Ints<Lanes> product = multiply_pairs<Lanes>(v, w[n]);
                    totals[r][n] = i == 0 ? product : totals[r][n] + product;
                }
            }
        }
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            NL_UNROLL for (int n = 0; n < Outputs; ++n) added[r][n] = __builtin_convertvector(totals[r][n], Vec<Lanes>);
        }
    }

    const CompactProducts& of_;
    const std::byte* const weights_;
    const int64_t apart_;  // bytes
    const float* const x_;
    const int64_t x_stride_;
    Vec<Lanes> sums_[Rows][Outputs] = {};
    alignas(64) float scales_[kBlocksAhead][Rows][Outputs][kGroups];
};

template <int Lanes, int Rows, int Outputs, CodeKind Kind, int Group, bool Fixed>
NL_INLINE void tile(const CompactProducts& of, int64_t first, int64_t apart, const float* x, float* y) {
    Tile<Lanes, Rows, Outputs, Kind, Group, Fixed> tile(of, first, apart, x);
    tile.run();
    NL_UNROLL for (int r = 0; r < Rows; ++r) {
        NL_UNROLL for (int n = 0; n < Outputs; ++n) {
            float& to = y[r * of.y_stride + n * apart];
            const float total = of.row_scales[first + n * apart] * tile.total(r, n);
            to = of.accumulate ? to + total : total;
        }
    }
}

template <int Lanes, int Rows, int Outputs, CodeKind Kind, int Group, bool Fixed>
NL_INLINE void some_rows(const CompactProducts& of, int64_t row, int64_t outputs) {
    const float* const x = of.x + row * spread_size(of.depth, of.kind);
    float* const y = of.y + row * of.y_stride;
    const int64_t apart = outputs / Outputs;
    for (int64_t n = 0; n < apart; ++n) tile<Lanes, Rows, Outputs, Kind, Group, Fixed>(of, n, apart, x, y + n);
    for (int64_t n = Outputs * apart; n < outputs; ++n) tile<Lanes, Rows, 1, Kind, Group, Fixed>(of, n, 0, x, y + n);
}

// As many rows and outputs at a time as there are registers for. Integers of 16 bits are multiplied 16 at a time at
// most, since a group of 16 has no more.
template <int Lanes, CodeKind Kind, int Group>
NL_INLINE void fixed_rows(const CompactProducts& of, int64_t rows, int64_t outputs) {
    constexpr int kLanes = std::min(Lanes, 8);
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) some_rows<kLanes, 4, 1, Kind, Group, true>(of, row, outputs);
    for (; row + 2 <= rows; row += 2) some_rows<kLanes, 2, 2, Kind, Group, true>(of, row, outputs);
    if (row < rows) some_rows<kLanes, 1, 4, Kind, Group, true>(of, row, outputs);
}
template <int Lanes, CodeKind Kind, int Group>
NL_INLINE void float_rows(const CompactProducts& of, int64_t rows, int64_t outputs) {
    for (int64_t row = 0; row < rows; ++row) some_rows<Lanes, 1, 4, Kind, Group, false>(of, row, outputs);
}

// One function for each kind of product: in one alone they would take minutes to compile.
#define NL_COMPACT_KIND(name, rows_of, kind, group)                                        \
    template <int Lanes>                                                                   \
    NL_INLINE void name##_body(const CompactProducts& of, int64_t rows, int64_t outputs) { \
        rows_of<Lanes, kind, group>(of, rows, outputs);                                    \
    }                                                                                      \
    NL_DISPATCH(name, (const CompactProducts& of, int64_t rows, int64_t outputs), (of, rows, outputs))

NL_COMPACT_KIND(fixed_bits4_by_16, fixed_rows, CodeKind::bits4, 16)
NL_COMPACT_KIND(fixed_bits4_by_32, fixed_rows, CodeKind::bits4, 32)
NL_COMPACT_KIND(fixed_int8_by_16, fixed_rows, CodeKind::int8, 16)
NL_COMPACT_KIND(fixed_int8_by_32, fixed_rows, CodeKind::int8, 32)
NL_COMPACT_KIND(float_bits4_by_16, float_rows, CodeKind::bits4, 16)
NL_COMPACT_KIND(float_bits4_by_32, float_rows, CodeKind::bits4, 32)
NL_COMPACT_KIND(float_int8_by_16, float_rows, CodeKind::int8, 16)
NL_COMPACT_KIND(float_int8_by_32, float_rows, CodeKind::int8, 32)
NL_COMPACT_KIND(float_e4m3, float_rows, CodeKind::e4m3, 32)

// Stores a run's even numbers and its odd ones, each 8, in their order.
template <int Lanes>
NL_INLINE void store_run(const Vec<Lanes> (&values)[kRun / Lanes], float* to) {
    if constexpr (Lanes == 16) {
        store<16>(to,
                  __builtin_shufflevector(values[0], values[0], 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    } else if constexpr (Lanes == 8) {
        store<8>(to, __builtin_shufflevector(values[0], values[1], 0, 8, 1, 9, 2, 10, 3, 11));
        store<8>(to + 8, __builtin_shufflevector(values[0], values[1], 4, 12, 5, 13, 6, 14, 7, 15));
    } else {
        NL_UNROLL for (int i = 0; i < 2; ++i) {
            store<4>(to + 8 * i, __builtin_shufflevector(values[i], values[i + 2], 0, 4, 1, 5));
            store<4>(to + 8 * i + 4, __builtin_shufflevector(values[i], values[i + 2], 2, 6, 3, 7));
        }
    }
}

template <int Lanes, CodeKind Kind>
NL_INLINE void expand_units(const CompactForm& form, const BlockScales& scales, const std::byte* from, int64_t weights,
                            float row_scale, float* to) {
    constexpr int kSteps = kRun / Lanes;
    for (int64_t k = 0; k < weights; k += kUnit) {
        Codes<Lanes, Kind> codes;
        codes.load_from(from + code_bytes(form, k));
        NL_UNROLL for (int run = 0; run < kUnit / kRun; ++run) {
            const int64_t group = (k + run * kRun) / stored_group(form);
            Vec<Lanes> values[kSteps];
            NL_UNROLL for (int step = 0; step < kSteps; ++step) {
                const float factor = Kind == CodeKind::bits4 ? place_factor<Lanes>(run, step * Lanes >= 8) : 1.0F;
                const float scale = scales.scales[group] * factor;
                values[step] = (scale * codes.widen(run, step) - scales.mins[group]) * row_scale;
            }
            store_run<Lanes>(values, to + k + run * kRun);
        }
    }
}

template <int Lanes>
NL_INLINE void expand_stored_body(const CompactForm& form, const std::byte* from, int64_t weights, float row_scale,
                                  float* to) {
    const int64_t groups = weights / stored_group(form);
    const std::byte* const codes = from + scale_bytes(form, groups);
    const float unit = form.codes == CodeKind::int8 ? kCodeUnit<CodeKind::int8> : 1.0F;
    BlockScales scales;
    if (stored_group(form) == 16)
        read_scales<Lanes, 16>(form, from, groups, unit, scales);
    else
        read_scales<Lanes, 8>(form, from, groups, unit, scales);
    switch (form.codes) {
        case CodeKind::bits4:
            return expand_units<Lanes, CodeKind::bits4>(form, scales, codes, weights, row_scale, to);
        case CodeKind::int8:
            return expand_units<Lanes, CodeKind::int8>(form, scales, codes, weights, row_scale, to);
        case CodeKind::e4m3:
            return expand_units<Lanes, CodeKind::e4m3>(form, scales, codes, weights, row_scale, to);
    }
}

// What stands behind a block's 256 numbers, all but the steps.
template <int Lanes>
NL_INLINE void add_sums(const float* numbers, float* facts) {
    float* const by_32 = facts + 16;
    for (int64_t group = 0; group < 16; ++group) {
        Vec<Lanes> total = load<Lanes>(numbers + group * kRun);
        for (int64_t i = Lanes; i < kRun; i += Lanes) total += load<Lanes>(numbers + group * kRun + i);
        facts[group] = sum<Lanes>(total);
    }
    for (int64_t group = 0; group < 8; ++group) by_32[group] = facts[2 * group] + facts[2 * group + 1];
}

// The evens of each run and then its odds, times what a code's place asks for.
template <int Lanes>
NL_INLINE void order_runs(const float* numbers, bool bits4, float* to) {
    for (int64_t run = 0; run < kCompactBlock / kRun; ++run) {
        const float even = bits4 ? place_factor<Lanes>(run, false) : 1.0F;
        const float odd = bits4 ? place_factor<Lanes>(run, true) : 1.0F;
        for (int64_t i = 0; i < 8; ++i) {
            to[run * kRun + i] = numbers[run * kRun + 2 * i] * even;
            to[run * kRun + 8 + i] = numbers[run * kRun + 2 * i + 1] * odd;
        }
    }
}

// 32 numbers in steps of a power of two, the largest one's 15 bits. Gives the step: NaN where a number is not finite.
template <int Lanes>
NL_INLINE float fix(const float* numbers, int16_t* to) {
    Vec<Lanes> most{};
    for (int64_t i = 0; i < 32; i += Lanes) {
        const Words<Lanes> bits = reinterpret_cast<Words<Lanes>>(load<Lanes>(numbers + i)) & 0x7FFFFFFFU;
        const Words<Lanes> before = reinterpret_cast<Words<Lanes>>(most);
        most = reinterpret_cast<Vec<Lanes>>(bits > before ? bits : before);
    }
    float largest = 0;
    for (int lane = 0; lane < Lanes; ++lane) {
        const float number = most[lane];
        largest = largest < number || number != number ? number : largest;
    }
    const uint32_t exponent = std::bit_cast<uint32_t>(largest) >> 23U;  // 2^(exponent - 127) <= largest
    if (exponent == 0xFFU || exponent < 15U) {  // not finite; less than 2^-112 counts as nothing
        std::fill_n(to, 32, int16_t{0});
        return exponent == 0xFFU ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    }
    const float step = std::bit_cast<float>((exponent - 14U) << 23U);
    const float inverse = std::bit_cast<float>((254U - (exponent - 14U)) << 23U);
    for (int64_t i = 0; i < 32; i += Lanes) {
        // Behind 1.5 * 2^23 the fraction ends at 1: the sum is rounded to an integer, whose lower bits are the sum's.
        const Vec<Lanes> shifted = load<Lanes>(numbers + i) * inverse + 12582912.0F;
        const auto halves =
            __builtin_convertvector(reinterpret_cast<Words<Lanes>>(shifted), typename SimdTypes<Lanes>::Halves);
        std::memcpy(to + i, &halves, sizeof(halves));
    }
    return step;
}

template <int Lanes>
NL_INLINE void fix_block(const float* numbers, float* to) {
    auto* const fixed = reinterpret_cast<int16_t*>(to);
    float* const steps_16 = to + kCompactBlock / 2 + 24;
    float* const steps_32 = steps_16 + 16;
    for (int64_t group = 0; group < 8; ++group) {
        const float step = fix<Lanes>(numbers + 32 * group, fixed + 32 * group);
        steps_16[2 * group] = steps_16[2 * group + 1] = steps_32[group] = step;
    }
}

template <int Lanes, typename T>
NL_INLINE void spread_compact_body(const T* x, int64_t depth, RowKind kind, float* to) {
    for (int64_t k = 0; k < depth; k += kCompactBlock, to += spread_block(kind)) {
        const int64_t count = std::min(kCompactBlock, depth - k);
        alignas(64) float numbers[kCompactBlock];
        int64_t i = 0;
        for (; i + Lanes <= count; i += Lanes) store<Lanes>(numbers + i, load<Lanes>(x + k + i));
        for (; i < count; ++i) numbers[i] = to_float(x[k + i]);
        std::fill(numbers + count, numbers + kCompactBlock, 0.0F);
        add_sums<Lanes>(numbers, to + spread_block(kind) - kRowFacts);
        if (kind == RowKind::fixed) {
            fix_block<Lanes>(numbers, to);
        } else {
            order_runs<Lanes>(numbers, kind == RowKind::beside_bits4, to);
        }
    }
}

}  // namespace

void compact_products(const CompactProducts& of, int64_t rows, int64_t outputs) {
    const bool small = of.form.group == 16;
    const bool bits4 = of.form.codes == CodeKind::bits4;
    if (of.kind == RowKind::fixed) {
        if (bits4) return small ? fixed_bits4_by_16(of, rows, outputs) : fixed_bits4_by_32(of, rows, outputs);
        return small ? fixed_int8_by_16(of, rows, outputs) : fixed_int8_by_32(of, rows, outputs);
    }
    if (of.form.codes == CodeKind::e4m3) return float_e4m3(of, rows, outputs);
    if (bits4) return small ? float_bits4_by_16(of, rows, outputs) : float_bits4_by_32(of, rows, outputs);
    return small ? float_int8_by_16(of, rows, outputs) : float_int8_by_32(of, rows, outputs);
}

NL_DISPATCH(expand_stored,
            (const CompactForm& form, const std::byte* from, int64_t weights, float row_scale, float* to),
            (form, from, weights, row_scale, to))
NL_DISPATCH(spread_compact, (const float* x, int64_t depth, RowKind kind, float* to), (x, depth, kind, to))
NL_DISPATCH(spread_compact, (const BFloat16* x, int64_t depth, RowKind kind, float* to), (x, depth, kind, to))

}  // namespace nanolith::cpu
