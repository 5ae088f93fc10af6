// Conversions between the number formats, over every 16-bit pattern.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/norm_rope.h"
#include "base/convert.h"
#include "unit/reference_model.h"

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

}  // namespace
}  // namespace nanolith::testing
