#include "backend/cpu/compact_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

constexpr int64_t kPart = kLeastCompactGroup;  // numbers that have facts of their own
constexpr int64_t kSteps = 32;                 // numbers that have a step of their own
constexpr uint32_t kInfinity = 0x7F800000U;    // the bits of a float32

// The bits of the largest |number|; those of a NaN are larger than all others.
template <int Lanes>
NL_INLINE uint32_t largest_bits(const float* numbers) {
    Words<Lanes> most{};
    for (int64_t i = 0; i < kSteps; i += Lanes) {
        const Words<Lanes> bits = reinterpret_cast<Words<Lanes>>(load<Lanes>(numbers + i)) & 0x7FFFFFFFU;
        most = bits > most ? bits : most;
    }
    uint32_t largest = 0;
    for (int lane = 0; lane < Lanes; ++lane) largest = std::max<uint32_t>(largest, most[lane]);
    return largest;
}

// Stores 32 numbers of bfloat16 as integers of -32639 to 32639, so that their high parts fit a byte. Gives the step.
template <int Lanes>
NL_INLINE float fix(const float* numbers, int16_t* to) {
    const uint32_t largest = largest_bits<Lanes>(numbers);
    // 2^exponent is more than the largest. One whose eight bits are all set would round up to it.
    const uint32_t exponent = (largest + 0x10000U) >> 23U;
    if (largest >= kInfinity || exponent < 15U) {  // less than 2^-112 counts as nothing
        std::fill_n(to, kSteps, int16_t{0});
        return largest >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    }
    const auto step = std::bit_cast<float>((exponent - 14U) << 23U);
    const auto inverse = std::bit_cast<float>((254U - (exponent - 14U)) << 23U);
    for (int64_t i = 0; i < kSteps; i += Lanes) {
        // Behind 1.5 * 2^23 the fraction ends at 1: the sum is rounded to an integer, whose lower bits are the sum's.
        const Vec<Lanes> shifted = load<Lanes>(numbers + i) * inverse + 12582912.0F;
        const auto words = reinterpret_cast<Words<Lanes>>(shifted);
        const auto halves = __builtin_convertvector(words, typename SimdTypes<Lanes>::Halves);
        std::memcpy(to + i, &halves, sizeof(halves));
    }
    return step;
}

NL_INLINE void order_words(const int16_t* integers, float* to) {
    int16_t ordered[kCompactBlock];
    for (int64_t i = 0; i < kCompactBlock; i += 4) {
        ordered[i] = integers[i];
        ordered[i + 1] = integers[i + 2];
        ordered[i + 2] = integers[i + 1];
        ordered[i + 3] = integers[i + 3];
    }
    std::memcpy(to, ordered, sizeof(ordered));
}

NL_INLINE void order_bytes(const int16_t* integers, float* to) {
    int8_t ordered[2 * kCompactBlock];
    for (int64_t i = 0; i < kCompactBlock; i += 4) {
        for (int64_t j = 0; j < 4; ++j) {
            const int32_t high = (integers[i + j] + 128) >> 8;
            ordered[2 * i + j] = static_cast<int8_t>(high);
            ordered[2 * i + 4 + j] = static_cast<int8_t>(integers[i + j] - 256 * high);
        }
    }
    std::memcpy(to, ordered, sizeof(ordered));
}

template <int Lanes>
NL_INLINE void spread_fixed(const float* numbers, RowKind kind, float* to, RowFacts& facts) {
    int16_t integers[kCompactBlock];
    for (int64_t i = 0; i < kCompactBlock; i += kSteps) {
        const float step = fix<Lanes>(numbers + i, integers + i);
        for (int64_t part = i / kPart; part < (i + kSteps) / kPart; ++part) {
            int32_t total = 0;
            for (int64_t j = part * kPart; j < (part + 1) * kPart; ++j) total += integers[j];
            facts.totals[part] = total;
            facts.steps[part] = step;
            facts.sums[part] = step * static_cast<float>(total);
        }
    }
    return kind == RowKind::words ? order_words(integers, to) : order_bytes(integers, to);
}

template <int Lanes>
NL_INLINE void spread_floats(const float* numbers, float* to, RowFacts& facts) {
    for (int64_t part = 0; part < kMostCompactGroups; ++part) {
        Vec<Lanes> total = load<Lanes>(numbers + part * kPart);
        for (int64_t i = Lanes; i < kPart; i += Lanes) total += load<Lanes>(numbers + part * kPart + i);
        facts.sums[part] = sum<Lanes>(total);
    }
    std::copy_n(numbers, kCompactBlock, to);
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
        RowFacts facts{};
        if (kind == RowKind::floats) {
            spread_floats<Lanes>(numbers, to, facts);
        } else {
            spread_fixed<Lanes>(numbers, kind, to, facts);
        }
        std::memcpy(to + spread_block(kind) - kRowFacts, &facts, sizeof(facts));
    }
}

}  // namespace

RowKind row_kind(CodeKind codes, bool bfloat16) {
    if (!bfloat16 || codes == CodeKind::e4m3) return RowKind::floats;
    return has_byte_products() ? RowKind::bytes : RowKind::words;
}

NL_DISPATCH(spread_compact, (const float* x, int64_t depth, RowKind kind, float* to), (x, depth, kind, to))
NL_DISPATCH(spread_compact, (const BFloat16* x, int64_t depth, RowKind kind, float* to), (x, depth, kind, to))

}  // namespace nanolith::cpu
