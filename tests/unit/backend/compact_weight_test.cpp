// Compact weights: what they are worth, and what quantising costs.
#include "backend/compact_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/read_weight.h"
#include "support/compact_blocks.h"

namespace nanolith {
namespace {

using testing::Random;
using testing::RandomCompact;

class CompactWeightTest : public ::testing::Test {
  protected:
    const uint64_t seed_ = std::random_device{}();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
    Random random_{seed_};
};

// Three roundings of float32: of the product with the code, of the difference, of the product with the row's scale.
TEST_F(CompactWeightTest, AreWhatTheirFormSays) {
    for (const auto& [name, form] : testing::kCompactForms) {
        const int64_t rows = 3;
        const int64_t cols = 1 + random_.below(700);
        const RandomCompact weight(form, rows, cols, random_);
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(cols) + " columns");
        std::vector<float> values(static_cast<size_t>(rows * cols));
        read_weight(weight.view(), 0, rows * cols, values.data());
        for (int64_t i = 0; i < rows * cols; ++i) {
            const auto [product, min, zero] = weight.parts(i / cols, i % cols);
            const double size = std::fabs(product) + std::fabs(min);
            ASSERT_NEAR(values[i], product - min, size * 3 * 0x1p-24) << "weight " << i;
        }
    }
}

// Rows are taken in the view's order, and a piece is the same as in the whole.
TEST_F(CompactWeightTest, AreReadInOrderAndInPieces) {
    const int64_t cols = 600;
    const RandomCompact weight({}, 8, cols, random_);
    const std::vector<int32_t> order{2, 0, 3, 1};
    WeightView view = weight.view();
    view.order = order;
    std::vector<float> piece(500);
    for (int64_t output = 0; output < 8; ++output) {
        read_weight(view, output * cols + 77, 500, piece.data());
        for (int64_t k = 0; k < 500; ++k) {
            const auto [product, min, zero] = weight.parts(output / 4 * 4 + order[output % 4], k + 77);
            ASSERT_NEAR(piece[k], product - min, std::fabs(product) * 3 * 0x1p-24) << output << ", " << k;
        }
    }
}

// The error of a row that was quantised, weight by weight.
class QuantiseRowTest : public CompactWeightTest {
  protected:
    std::vector<float> row_of(int64_t cols, int exponent) {
        std::vector<float> row(static_cast<size_t>(cols));
        for (float& number : row) number = std::ldexp(random_.centered(), exponent + random_.below(6));
        if (random_.below(3) == 0) std::fill(row.begin(), row.begin() + cols / 2, 0.0F);
        if (random_.below(3) == 0) row[random_.below(static_cast<int32_t>(cols))] *= 300;
        return row;
    }
    static std::vector<float> there_and_back(CodeKind codes, const std::vector<float>& row) {
        const auto cols = static_cast<int64_t>(row.size());
        std::vector<CompactBlock> blocks(static_cast<size_t>(compact_blocks(cols)));
        const float scale = quantise_row(codes, row.data(), cols, blocks.data());
        std::vector<float> back(row.size());
        for (int64_t k = 0; k < cols; k += kCompactBlock)
            expand_block(quantised_form(codes), blocks[k / kCompactBlock], scale, 0, std::min(kCompactBlock, cols - k),
                         back.data() + k);
        return back;
    }
    static float most_of(const std::vector<float>& row, int64_t first, int64_t count) {
        float most = 0;
        for (int64_t k = first; k < std::min<int64_t>(first + count, static_cast<int64_t>(row.size())); ++k)
            most = std::max(most, std::fabs(row[k]));
        return most;
    }
};

// Half a step of max|w| / 127 of the group, its rounding to float16 (2^-11, times the code at most), and of the
// smallest scales what float16 has no bits for: 2^-25 of a row whose largest number is 2^13 or more.
TEST_F(QuantiseRowTest, Int8IsWithinHalfAStepOfItsGroup) {
    for (int turn = 0; turn < 200; ++turn) {
        const std::vector<float> row = row_of(1 + random_.below(900), random_.below(200) - 110);
        const std::vector<float> back = there_and_back(CodeKind::int8, row);
        const double tiny = 127 * 0x1p-25 * 0x1p-13 * 2 * most_of(row, 0, static_cast<int64_t>(row.size()));
        for (size_t k = 0; k < row.size(); ++k) {
            const double step = most_of(row, static_cast<int64_t>(k) / 32 * 32, 32) / 127;
            ASSERT_NEAR(back[k], row[k], step * (0.5 + 127 * 0x1p-11) * 1.001 + tiny) << k << " of " << row.size();
        }
    }
}

// A code is within half a step of its scale, which is within half a unit of the block's, (its largest step) / 127, of
// (high - low) / 15; fifteen times that is what the ends of the group may lose. The minimum is within half a unit of
// the block's largest, too.
TEST_F(QuantiseRowTest, FourBitsAreWithinHalfAStepOfTheirGroup) {
    for (int turn = 0; turn < 200; ++turn) {
        const std::vector<float> row = row_of(1 + random_.below(900), random_.below(200) - 110);
        const std::vector<float> back = there_and_back(CodeKind::bits4, row);
        for (size_t k = 0; k < row.size(); ++k) {
            const auto at = static_cast<int64_t>(k);
            const double whole = 2 * most_of(row, at / kCompactBlock * kCompactBlock, kCompactBlock);
            const double own = 2 * most_of(row, at / 32 * 32, 32);
            const double bound = own / 15 * 0.5 + whole / 127 * (0.5 + 0.5 + 0.5);
            ASSERT_NEAR(back[k], row[k], bound * 1.01 + 1e-44) << k << " of " << row.size();
        }
    }
}

// 2^-4 of the number itself, or half the smallest step of e4m3, 2^-10 of max|w| / 448.
TEST_F(QuantiseRowTest, E4M3IsWithinItsPrecision) {
    for (int turn = 0; turn < 200; ++turn) {
        const std::vector<float> row = row_of(1 + random_.below(900), random_.below(200) - 110);
        const std::vector<float> back = there_and_back(CodeKind::e4m3, row);
        const double unit = most_of(row, 0, static_cast<int64_t>(row.size())) / 448.0;
        for (size_t k = 0; k < row.size(); ++k)
            ASSERT_NEAR(back[k], row[k], std::fabs(row[k]) * 0x1.01p-4 + unit * 0x1.01p-10) << k;
    }
}

TEST_F(QuantiseRowTest, NumbersThatFitComeBackExactly) {
    std::vector<float> row(512);
    for (float& number : row) number = static_cast<float>(random_.below(255) - 127) * 0x1p-9F;
    for (size_t k = 0; k < row.size(); k += 32) row[k] = 127 * 0x1p-9F;  // the scale is 2^-9
    EXPECT_EQ(there_and_back(CodeKind::int8, row), row);
    // Minimums of 8 and 0, scales of 1 and 1/2: 7 bits of the block's largest, 127/127 and so on, where both exist.
    for (size_t k = 0; k < row.size(); ++k) row[k] = static_cast<float>(random_.below(16) - 8) * 0x1p-9F;
    for (size_t k = 0; k < row.size(); k += 32) row[k] = -8 * 0x1p-9F, row[k + 1] = 7 * 0x1p-9F;
    const std::vector<float> back = there_and_back(CodeKind::bits4, row);
    for (size_t k = 0; k < row.size(); ++k) ASSERT_NEAR(back[k], row[k], 0x1p-9 * 8 * 0x1p-10) << k;
}

TEST_F(QuantiseRowTest, ZerosAndSmallestNumbers) {
    for (const CodeKind codes : {CodeKind::int8, CodeKind::bits4, CodeKind::e4m3}) {
        EXPECT_EQ(there_and_back(codes, std::vector<float>(300)), std::vector<float>(300));
        for (const float size : {1e-45F, 1e-40F, 3e38F}) {
            const std::vector<float> back = there_and_back(codes, {size, -size, 0, size});
            for (const float number : back) EXPECT_TRUE(std::isfinite(number)) << size;
            if (size > 1) {
                EXPECT_NEAR(back[0] / size, 1, 0.01);
            }
        }
    }
}

// What is not finite is not hidden.
TEST_F(QuantiseRowTest, ARowThatIsNotFiniteIsNan) {
    for (const CodeKind codes : {CodeKind::int8, CodeKind::bits4, CodeKind::e4m3}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            std::vector<float> row(40, 1.0F);
            row[33] = bad;
            for (const float number : there_and_back(codes, row)) EXPECT_TRUE(std::isnan(number));
        }
    }
}

}  // namespace
}  // namespace nanolith
