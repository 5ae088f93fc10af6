// The narrow floating-point formats of model files and key-value pages, as storage: conversions to and from float32.
#pragma once

#include <bit>
#include <cstdint>

namespace nanolith {

// bfloat16: the upper half of a float32.
struct BFloat16 {
    uint16_t bits = 0;
};

inline float to_float(float value) {
    return value;
}

inline float to_float(BFloat16 value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16U);
}

// Rounds to nearest, ties to even. NaN stays NaN, whatever its payload.
inline BFloat16 to_bfloat16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<uint16_t>((bits >> 16U) | 0x40U)};
    return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

// IEEE 754 binary16, exactly: every half is a float32.
inline float half_to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16U;
    const uint32_t exponent = (half >> 10U) & 0x1FU;
    const uint32_t fraction = half & 0x3FFU;
    if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // subnormal, or zero
    return sign != 0 ? -magnitude : magnitude;
}

// IEEE 754 binary16.
struct Half {
    uint16_t bits = 0;
};

inline float to_float(Half value) {
    return half_to_float(value.bits);
}

// Rounds to nearest, ties to even; too large becomes infinity. NaN stays NaN.
inline Half to_half(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return {static_cast<uint16_t>(sign | 0x7E00U)};
    if (magnitude >= 0x47800000U) return {static_cast<uint16_t>(sign | 0x7C00U)};  // 2^16 and above
    if (magnitude < 0x38800000U) {  // below 2^-14: adding 1/2 leaves a multiple of 2^-24, rounded
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U))};
    }
    const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
    return {static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13U))};
}

// 8 bits with 4 of exponent and 3 of fraction: no infinities, one NaN a sign, values up to 448 (Micikevicius et al.,
// FP8 Formats for Deep Learning).
struct Float8E4M3 {
    uint8_t bits = 0;
};

inline float to_float(Float8E4M3 value) {
    const uint32_t magnitude = value.bits & 0x7FU;
    const uint32_t sign = static_cast<uint32_t>(value.bits & 0x80U) << 24U;
    if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
    // As the bits of a float32 its exponent is 120 too small; the product with 2^120 is exact.
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 20U) * 0x1p120F));
}

// Rounds to nearest, ties to even; what is beyond 448 becomes 448. NaN stays NaN.
inline Float8E4M3 to_float8_e4m3(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint8_t>((bits >> 24U) & 0x80U);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return {static_cast<uint8_t>(sign | 0x7FU)};
    if (magnitude >= 0x43E00000U) return {static_cast<uint8_t>(sign | 0x7EU)};  // 448 and above
    if (magnitude < 0x3C800000U) {  // below 2^-6: adding 2^14 leaves a multiple of 2^-9, rounded
        const float shifted = std::bit_cast<float>(magnitude) + 0x1p14F;
        return {static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000U))};
    }
    const uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U);
    return {static_cast<uint8_t>(sign | ((rounded - 0x3C000000U) >> 20U))};
}

template <typename T>
T from_float(float value);
template <>
inline float from_float<float>(float value) {
    return value;
}
template <>
inline BFloat16 from_float<BFloat16>(float value) {
    return to_bfloat16(value);
}
template <>
inline Half from_float<Half>(float value) {
    return to_half(value);
}
template <>
inline Float8E4M3 from_float<Float8E4M3>(float value) {
    return to_float8_e4m3(value);
}

}  // namespace nanolith
