// The 16-bit floating-point formats of model files, as storage: conversions to and from float32.
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

}  // namespace nanolith
