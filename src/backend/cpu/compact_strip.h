// Reads what compact_matrix.h lays out: scales, minimums and codes of a strip, as vectors whose lanes are rows.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>  // declares the builtin functions
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/compact_matrix.h"
#include "backend/cpu/simd.h"

namespace nanolith::cpu {

template <int Lanes>
struct NarrowTypes {
    typedef int8_t Bytes __attribute__((vector_size(Lanes)));
    typedef int16_t Shorts __attribute__((vector_size(Lanes * 2)));
};

// How many vectors hold one number of each row of a strip.
template <int Lanes>
inline constexpr int kStripVectors = static_cast<int>(kStrip) / Lanes;

template <typename Vector>
NL_INLINE Vector load_as(const std::byte* from) {
    Vector value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

// The next two functions read `Lanes` numbers of int8 or of float16 and convert them to float32. x86 has instructions
// for that, which GCC 12 does not use for the plain conversion behind the #endif.

// Numbers of int8.
template <int Lanes>
NL_INLINE Vec<Lanes> load_int8(const std::byte* from) {
#if defined(__x86_64__) && !defined(__clang__)
    typedef char Chars __attribute__((vector_size(16)));
    if constexpr (Lanes == 16) {
        const auto ints = __builtin_ia32_pmovsxbd512_mask(load_as<Chars>(from), Ints<16>{}, 0xFFFF);
        return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(ints), Vec<Lanes>);
    }
    if constexpr (Lanes == 8) {
        typedef int64_t Pair __attribute__((vector_size(16)));
        const Pair pair{load_as<int64_t>(from), 0};
        const auto ints = __builtin_ia32_pmovsxbd256(reinterpret_cast<Chars>(pair));
        return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(ints), Vec<Lanes>);
    }
#endif
    const auto bytes = load_as<typename NarrowTypes<Lanes>::Bytes>(from);
    const auto shorts = __builtin_convertvector(bytes, typename NarrowTypes<Lanes>::Shorts);
    return __builtin_convertvector(__builtin_convertvector(shorts, Ints<Lanes>), Vec<Lanes>);
}

// Numbers of float16, which are finite.
template <int Lanes>
NL_INLINE Vec<Lanes> load_halves(const std::byte* from) {
#if defined(__x86_64__) && !defined(__clang__)
    using Shorts = typename NarrowTypes<Lanes>::Shorts;
    if constexpr (Lanes == 16) return __builtin_ia32_vcvtph2ps512_mask(load_as<Shorts>(from), Vec<16>{}, 0xFFFF, 4);
    if constexpr (Lanes == 8) return __builtin_ia32_vcvtph2ps256(load_as<Shorts>(from));
#endif
    const auto halves = load_as<typename SimdTypes<Lanes>::Halves>(from);
    const Words<Lanes> words = __builtin_convertvector(halves, Words<Lanes>);
    // As a float32 its exponent is 112 too small.
    const Words<Lanes> magnitude =
        reinterpret_cast<Words<Lanes>>(reinterpret_cast<Vec<Lanes>>((words & 0x7FFFU) << 13) * 0x1p112F);
    return reinterpret_cast<Vec<Lanes>>(magnitude | ((words & 0x8000U) << 16));
}

// The scales of a group of a block, for the strip's rows from `lane` on.
template <int Lanes>
NL_INLINE Vec<Lanes> group_scales(const CompactForm& form, const std::byte* block, int64_t group, int64_t lane) {
    if (form.scales == ScaleKind::none) return broadcast<Lanes>(1);
    if (form.scales != ScaleKind::two) return load_halves<Lanes>(block + 2 * (group * kStrip + lane));
    return load_halves<Lanes>(block + 2 * lane) * load_int8<Lanes>(block + (4 + group) * kStrip + lane);
}

// The minimums of a group of a block, for the strip's rows from `lane` on. The form has minimums, and the block
// `groups` groups.
template <int Lanes>
NL_INLINE Vec<Lanes> group_mins(const CompactForm& form, const std::byte* block, int64_t groups, int64_t group,
                                int64_t lane) {
    if (form.scales == ScaleKind::half) return load_halves<Lanes>(block + 2 * ((groups + group) * kStrip + lane));
    if (form.scales == ScaleKind::zeros) {
        return load_halves<Lanes>(block + 2 * (group * kStrip + lane)) *
               load_int8<Lanes>(block + (2 * groups + group) * kStrip + lane);
    }
    return load_halves<Lanes>(block + 2 * (kStrip + lane)) *
           load_int8<Lanes>(block + (4 + groups + group) * kStrip + lane);
}

// The codes of a column of a line as float32, before the form's zero is subtracted.
template <int Lanes, CodeKind Kind>
NL_INLINE Vec<Lanes> codes_of_column(Words<Lanes> words, int column) {
    if constexpr (Kind == CodeKind::bits4) {
        const int shift = 8 * (column % 4) + 4 * (column / 4);
        const Words<Lanes> codes = shift == 28 ? words >> 28 : (words >> shift) & 15U;
        return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(codes), Vec<Lanes>);
    } else if constexpr (Kind == CodeKind::int8) {
        const Words<Lanes> codes = column == 3 ? words >> 24 : (words >> (8 * column)) & 0xFFU;
        return __builtin_convertvector(reinterpret_cast<Ints<Lanes>>(codes) - kInt8Zero, Vec<Lanes>);
    } else {
        // The bits of a Float8E4M3 in a float32: its sign, exponent and fraction. Its exponent is 120 too small then.
        constexpr auto kBits = static_cast<int32_t>(0x87F00000U);
        const Words<Lanes> upper = words << (24 - 8 * column);
        const Ints<Lanes> moved = (reinterpret_cast<Ints<Lanes>>(upper) >> 4) & kBits;
        return reinterpret_cast<Vec<Lanes>>(moved) * 0x1p120F;
    }
}

}  // namespace nanolith::cpu
