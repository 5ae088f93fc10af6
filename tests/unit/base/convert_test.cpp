// Conversions between the number formats, over every 16-bit pattern.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/norm_rope.h"
#include "base/convert.h"
#include "support/reference_model.h"

namespace nanolith::testing {
namespace {

double by_definition(DType dtype, uint16_t bits) {
    return widen({dtype, 1, 1, reinterpret_cast<const std::byte*>(&bits)})[0];
}

TEST(Convert, EveryHalfIsExact) {
    for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
        const float value = half_to_float(static_cast<uint16_t>(bits));
        const double expected = by_definition(DType::f16, static_cast<uint16_t>(bits));
        if (std::isnan(expected))
            EXPECT_TRUE(std::isnan(value)) << bits;
        else
            EXPECT_EQ(static_cast<double>(value), expected) << bits;
        EXPECT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    }
}

TEST(Convert, EveryBFloat16ComesBack) {
    for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
        const BFloat16 stored{static_cast<uint16_t>(bits)};
        const float value = to_float(stored);
        const double expected = by_definition(DType::bf16, stored.bits);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(value)) << bits;
            EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value)))) << bits;
        } else {
            EXPECT_EQ(static_cast<double>(value), expected) << bits;
            EXPECT_EQ(to_bfloat16(value).bits, stored.bits);
        }
    }
}

// Rounds to the nearer neighbour, to the even one from the middle. The vectorised conversion does the same.
TEST(Convert, RoundsToNearestEven) {
    std::vector<float> values = {1.0F + 0x1p-8F, 1.0F + 0x3p-8F,
                                 0x1.010002p0F,  std::numeric_limits<float>::max(),
                                 -0.0F,          std::numeric_limits<float>::infinity(),
                                 0x1p-149F};
    const std::vector<uint16_t> expected = {0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x8000, 0x7F80, 0};
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(to_bfloat16(values[i]).bits, expected[i]) << values[i];

    uint32_t signalling_bits = 0x7F800001U;  // NaN whose upper half alone would be infinity
    float signalling = 0;
    std::memcpy(&signalling, &signalling_bits, sizeof(signalling));
    values.push_back(signalling);
    std::mt19937 random(7);
    while (values.size() < 1003) {
        const auto bits = static_cast<uint32_t>(random());
        float value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        values.push_back(value);
    }
    std::vector<BFloat16> narrow(values.size());
    cpu::convert(values.data(), static_cast<int64_t>(values.size()), narrow.data());
    for (size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i]))
            EXPECT_TRUE(std::isnan(to_float(narrow[i]))) << i;
        else
            EXPECT_EQ(narrow[i].bits, to_bfloat16(values[i]).bits) << values[i];
    }
}

TEST(Convert, EveryHalfComesBack) {
    std::vector<Half> halves;
    for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) halves.push_back({static_cast<uint16_t>(bits)});
    std::vector<float> wide(halves.size());
    cpu::convert(halves.data(), static_cast<int64_t>(halves.size()), wide.data());
    for (size_t bits = 0; bits < halves.size(); ++bits) {
        const double expected = by_definition(DType::f16, halves[bits].bits);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(wide[bits])) << bits;
            EXPECT_TRUE(std::isnan(to_float(to_half(wide[bits])))) << bits;
        } else {
            EXPECT_EQ(static_cast<double>(wide[bits]), expected) << bits;
            EXPECT_EQ(to_half(wide[bits]).bits, bits);
        }
    }
}

// (-1)^sign * 2^(exponent - 7) * 1.fraction; exponent 0 has no leading 1; all ones is NaN.
double float8_by_definition(uint32_t bits) {
    const uint32_t exponent = (bits >> 3U) & 15U;
    const double fraction = (bits & 7U) / 8.0;
    if ((bits & 0x7FU) == 0x7FU) return std::nan("");
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, static_cast<int>(exponent) - 7);
    return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

TEST(Convert, EveryFloat8ComesBack) {
    std::vector<Float8E4M3> narrow;
    for (uint32_t bits = 0; bits <= 0xFFU; ++bits) narrow.push_back({static_cast<uint8_t>(bits)});
    std::vector<float> wide(narrow.size());
    cpu::convert(narrow.data(), static_cast<int64_t>(narrow.size()), wide.data());
    for (uint32_t bits = 0; bits <= 0xFFU; ++bits) {
        const double expected = float8_by_definition(bits);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(to_float(narrow[bits])));
            EXPECT_TRUE(std::isnan(wide[bits]));
            EXPECT_TRUE(std::isnan(to_float(to_float8_e4m3(wide[bits]))));
        } else {
            EXPECT_EQ(static_cast<double>(to_float(narrow[bits])), expected) << bits;
            EXPECT_EQ(static_cast<double>(wide[bits]), expected) << bits;
            EXPECT_EQ(to_float8_e4m3(wide[bits]).bits, bits);
        }
    }
}

// Between two neighbours: below the middle to the lower one, above it to the upper, in the middle to the even one.
template <typename T, typename Narrow>
void expect_rounds_to_nearest(uint32_t largest, const Narrow& narrow) {
    for (uint32_t bits = 0; bits < largest; ++bits) {
        const float lower = to_float(T{static_cast<decltype(T::bits)>(bits)});
        const float upper = to_float(T{static_cast<decltype(T::bits)>(bits + 1)});
        const float middle = (lower + upper) / 2;
        EXPECT_EQ(narrow(std::nextafter(middle, 0.0F)).bits, bits) << middle;
        EXPECT_EQ(narrow(middle).bits, bits % 2 == 0 ? bits : bits + 1) << middle;
        EXPECT_EQ(narrow(std::nextafter(middle, 1e9F)).bits, bits + 1) << middle;
    }
}

TEST(Convert, NarrowFormatsRoundToNearestEven) {
    expect_rounds_to_nearest<Half>(0x7BFFU, to_half);
    expect_rounds_to_nearest<Float8E4M3>(0x7EU, to_float8_e4m3);
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(to_half(65519.99F).bits, 0x7BFFU);
    EXPECT_EQ(to_half(65520.0F).bits, 0x7C00U);
    EXPECT_EQ(to_half(-infinity).bits, 0xFC00U);
    for (const float large : {449.0F, 464.0F, 1e30F, infinity}) {
        EXPECT_EQ(to_float8_e4m3(large).bits, 0x7EU) << large;
        EXPECT_EQ(to_float8_e4m3(-large).bits, 0xFEU) << large;
    }
}

}  // namespace
}  // namespace nanolith::testing
