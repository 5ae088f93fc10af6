// read_weight against widen(), which spells out WeightView's definition element by element.
#include "backend/read_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "support/model_files.h"
#include "support/reference_model.h"

namespace nanolith {
namespace {

using testing::fresh_seed;
using testing::widen;

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3};

// Random bytes one after an aligned address: every pattern of bits, read where files may put it.
class Bytes {
  public:
    Bytes(size_t size, std::mt19937& random) : bytes_(size + 1) {
        for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    }
    [[nodiscard]] const std::byte* data() const { return bytes_.data() + 1; }

  private:
    std::vector<std::byte> bytes_;
};

std::vector<int32_t> shuffled(int32_t size, std::mt19937& random) {
    std::vector<int32_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    return order;
}

// A product of two float32 is exact in double, so both sides round once: they must be equal.
void expect_reads(const WeightView& view, std::mt19937& random) {
    const std::vector<double> expected = widen(view);
    const int64_t size = view.rows * view.cols;
    ASSERT_EQ(static_cast<int64_t>(expected.size()), size);
    const auto check = [&](int64_t first, int64_t count) {
        constexpr float kUntouched = -12345.0F;
        std::vector<float> values(static_cast<size_t>(count) + 1, kUntouched);
        read_weight(view, first, count, values.data());
        EXPECT_EQ(values.back(), kUntouched);
        for (int64_t i = 0; i < count; ++i) {
            const auto wanted = static_cast<float>(expected[first + i]);
            const float value = values[i];
            ASSERT_TRUE(value == wanted || (std::isnan(value) && std::isnan(wanted)))
                << "element " << first + i << " of [" << view.rows << ", " << view.cols << "] read from " << first
                << ": " << value << ", expected " << wanted;
        }
    };
    check(0, size);
    check(size - 1, 1);
    check(size, 0);
    for (int piece = 0; piece < 20; ++piece) {
        const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
        check(first, static_cast<int64_t>(random() % static_cast<uint64_t>(size - first)) + 1);
    }
}

TEST(ReadWeight, EveryDtypeAndOrder) {
    std::mt19937 random(fresh_seed());
    for (const DType dtype : kDTypes) {
        SCOPED_TRACE(dtype_name(dtype));
        const Bytes bytes(24 * 37 * dtype_bytes(dtype), random);
        expect_reads({dtype, 24, 37, bytes.data()}, random);
        expect_reads({dtype, 1, 24 * 37, bytes.data()}, random);
        for (const int32_t group : {1, 2, 6, 8, 24}) {
            SCOPED_TRACE(group);
            const auto order = shuffled(group, random);
            expect_reads({dtype, 24, 37, bytes.data(), order}, random);
            expect_reads({dtype, 24, 1, bytes.data(), order}, random);
            expect_reads({dtype, 1, 24, bytes.data(), order}, random);
            expect_reads({dtype, 1, 24 * 37, bytes.data(), order}, random);
        }
    }
}

TEST(ReadWeight, ScalesOfBlocksThatTheSizesDoNotDivide) {
    std::mt19937 random(fresh_seed());
    constexpr int64_t kRows = 30;
    constexpr int64_t kCols = 37;
    const struct {
        int64_t rows, cols;
    } blocks[] = {{kRows, kCols}, {1, kCols}, {1, 1}, {7, 5}, {8, 16}, {128, 128}, {3, kCols}, {kRows, 4}};
    for (const DType dtype : kDTypes) {
        for (const DType scale_dtype : {DType::f32, DType::f16, DType::bf16}) {
            SCOPED_TRACE(std::string(dtype_name(dtype)) + " by " + dtype_name(scale_dtype));
            const Bytes bytes(kRows * kCols * dtype_bytes(dtype), random);
            const Bytes factors(kRows * kCols * dtype_bytes(scale_dtype), random);
            for (const auto& block : blocks) {
                SCOPED_TRACE(std::to_string(block.rows) + " x " + std::to_string(block.cols));
                const int64_t stride = (kCols + block.cols - 1) / block.cols;
                WeightView view{dtype, kRows, kCols, bytes.data()};
                view.scales = {scale_dtype, block.rows, block.cols, stride, 0, factors.data()};
                expect_reads(view, random);
                const auto order = shuffled(10, random);
                view.order = order;
                expect_reads(view, random);
                // A part of a fused matrix begins in the middle of a block.
                for (const int64_t first_row : {1, 5, 11}) {
                    WeightView part = view;
                    part.rows = 10;
                    part.data += static_cast<size_t>(first_row * kCols) * dtype_bytes(dtype);
                    part.scales.first_row = first_row;
                    expect_reads(part, random);
                    // It has what the whole has there.
                    part.order = {};
                    WeightView whole = view;
                    whole.order = {};
                    std::vector<float> of_part(10 * kCols);
                    std::vector<float> of_whole(of_part.size());
                    read_weight(part, 0, 10 * kCols, of_part.data());
                    read_weight(whole, first_row * kCols, 10 * kCols, of_whole.data());
                    EXPECT_EQ(std::memcmp(of_part.data(), of_whole.data(), of_part.size() * sizeof(float)), 0);
                }
            }
        }
    }
}

// By hand: 8-bit floats 1, 1.5, 448 and 2^-9 in two rows of two, rows in reverse, a factor for each row.
TEST(ReadWeight, ByHand) {
    const uint8_t bytes[] = {0x38, 0x3C, 0x7E, 0x81};
    const float factors[] = {2.0F, 0.5F};
    const int32_t order[] = {1, 0};
    WeightView view{DType::f8_e4m3, 2, 2, reinterpret_cast<const std::byte*>(bytes), order};
    view.scales = {DType::f32, 1, 2, 1, 0, reinterpret_cast<const std::byte*>(factors)};
    std::vector<float> values(4);
    read_weight(view, 0, 4, values.data());
    EXPECT_EQ(values, std::vector<float>({224.0F, -0x1p-10F, 2.0F, 3.0F}));
    read_weight(view, 1, 2, values.data());
    EXPECT_EQ(values[0], -0x1p-10F);
    EXPECT_EQ(values[1], 2.0F);
    // A vector in groups of two.
    const WeightView vector{DType::f8_e4m3, 1, 4, reinterpret_cast<const std::byte*>(bytes), order};
    read_weight(vector, 0, 4, values.data());
    EXPECT_EQ(values, std::vector<float>({1.5F, 1.0F, -0x1p-9F, 448.0F}));
}

}  // namespace
}  // namespace nanolith
