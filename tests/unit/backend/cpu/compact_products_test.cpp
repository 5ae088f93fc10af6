// Products with compact weights against float64, over random blocks, shapes and forms.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/compact_expand.h"
#include "backend/cpu/products.h"
#include "support/compact_blocks.h"

namespace nanolith::cpu {
namespace {

using testing::Random;
using testing::RandomCompact;

template <typename T>
class CompactProductsTest : public ::testing::Test {
  protected:
    // A matrix of some parts, each of another form, and rows of x of variance 1.
    void fill(int64_t rows, int64_t depth, const std::vector<CompactForm>& forms) {
        rows_ = rows;
        sources_.clear();
        matrix_ = {};
        matrix_.depth = depth;
        for (const CompactForm& form : forms) {
            sources_.push_back(std::make_unique<RandomCompact>(form, 1 + random_.below(60), depth, random_));
            auto part = load_compact("w", sources_.back()->view(), form, *pool_);
            ASSERT_TRUE(part.ok());
            matrix_.outputs += part->outputs;
            matrix_.parts.push_back(std::move(*part));
        }
        x_.resize(static_cast<size_t>(padded_rows(rows) * depth));
        for (T& value : x_) value = from_float<T>(random_.centered());
        y_.resize(static_cast<size_t>(padded_rows(rows) * matrix_.outputs));
        for (float& value : y_) value = random_.centered();
    }

    std::vector<float> run(int64_t rows, bool accumulate, bool batch_invariant) {
        auto products = Products<T>::create(*pool_, rows_, matrix_.depth, batch_invariant);
        EXPECT_TRUE(products.ok());
        EXPECT_TRUE(products->prepare(matrix_, rows_).ok());
        std::vector<float> y = y_;
        std::vector<T> x = x_;
        EXPECT_TRUE(products->run(matrix_, x.data(), rows, y.data(), accumulate).ok());
        return y;
    }

    // The most that number k of a row of x may be off before it is multiplied. Rows of bfloat16 are rounded to integers
    // times a power of two, one for each 32 numbers (compact_rows.h), so that the small ones of them lose bits.
    double rounding_of(int64_t row, int64_t k) const {
        if (!std::is_same_v<T, BFloat16>) return 0;
        double largest = 0;
        for (int64_t i = k / 32 * 32; i < std::min(k / 32 * 32 + 32, matrix_.depth); ++i)
            largest = std::max(largest, std::fabs(static_cast<double>(to_float(x_[row * matrix_.depth + i]))));
        const double x = std::fabs(static_cast<double>(to_float(x_[row * matrix_.depth + k])));
        return x >= largest / 64 ? 0 : largest * 1.01 * 0x1p-15;
    }

    // Each sum within what float32 sums of twice as many terms, products and minimums, can be off at most. Where
    // weights are widened for bfloat16 units each is rounded to 2^-9 of itself besides.
    void expect_products(const std::vector<float>& y, bool accumulate, double rounding) const {
        const double unit = static_cast<double>(2 * matrix_.depth + 8) * 0x1p-24 + rounding;
        for (int64_t r = 0; r < rows_; ++r) {
            std::vector<double> off(static_cast<size_t>(matrix_.depth));
            for (int64_t k = 0; k < matrix_.depth; ++k) off[k] = rounding_of(r, k);
            int64_t n = 0;
            for (const auto& source : sources_) {
                for (int64_t row = 0; row < source->view().rows; ++row, ++n) {
                    const float before = accumulate ? y_[r * matrix_.outputs + n] : 0.0F;
                    double sum = before;
                    double size = std::fabs(before);
                    double of_x = 0;
                    for (int64_t k = 0; k < matrix_.depth; ++k) {
                        const auto [product, min, zero] = source->parts(row, k);
                        const double x = to_float(x_[r * matrix_.depth + k]);
                        sum += (product - min) * x;
                        // A code is stored as what it is above its zero, whose product is taken off again.
                        of_x += (std::fabs(product) + std::fabs(min)) * off[k];
                        size += (16 * (std::fabs(product) + std::fabs(min)) + std::fabs(zero)) * std::fabs(x);
                    }
                    ASSERT_NEAR(y[r * matrix_.outputs + n], sum, unit * size + of_x + 1e-40)
                        << "row " << r << ", output " << n;
                }
            }
        }
    }

    std::vector<CompactForm> some_forms() {
        std::vector<CompactForm> forms;
        const int32_t count = 1 + random_.below(3);
        for (int32_t i = 0; i < count; ++i)
            forms.push_back(
                testing::kCompactForms[random_.below(static_cast<int32_t>(std::size(testing::kCompactForms)))].form);
        return forms;
    }

    const uint64_t seed_ = std::random_device{}();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
    Random random_{seed_};
    std::unique_ptr<ThreadPool> pool_ = ThreadPool::create(2);
    int64_t rows_ = 0;
    std::vector<std::unique_ptr<RandomCompact>> sources_;
    Matrix<T> matrix_;
    std::vector<T> x_;
    std::vector<float> y_;
};

using Types = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(CompactProductsTest, Types);

TYPED_TEST(CompactProductsTest, EveryForm) {
    for (const auto& [name, form] : testing::kCompactForms) {
        for (const int64_t rows : {1, 2, 3, 4, 7, 13}) {
            this->fill(rows, 1 + this->random_.below(rows == 1 ? 2500 : 700), {form});
            SCOPED_TRACE(std::string(name) + ", " + std::to_string(rows) + " rows, depth " +
                         std::to_string(this->matrix_.depth));
            const bool accumulate = rows % 2 == 0;
            ASSERT_NO_FATAL_FAILURE(this->expect_products(this->run(rows, accumulate, false), accumulate, 0));
        }
    }
}

TYPED_TEST(CompactProductsTest, ManyRowsOfPartsOfManyForms) {
    for (int turn = 0; turn < 16; ++turn) {
        const int64_t rows = 5 + this->random_.below(turn % 2 == 0 ? 30 : 200);
        this->fill(rows, 1 + this->random_.below(1300), this->some_forms());
        SCOPED_TRACE(std::to_string(rows) + " rows, depth " + std::to_string(this->matrix_.depth));
        const bool accumulate = turn % 4 < 2;
        const double rounding = std::is_same_v<TypeParam, BFloat16> && rows > 32 ? 0x1p-9 : 0;
        ASSERT_NO_FATAL_FAILURE(this->expect_products(this->run(rows, accumulate, false), accumulate, rounding));
    }
}

// To the bit: what a row's sums are does not depend on how many other rows there are.
TYPED_TEST(CompactProductsTest, BatchInvariant) {
    this->fill(77, 900, {testing::kCompactForms[7].form, testing::kCompactForms[9].form});
    const std::vector<float> all = this->run(77, false, true);
    ASSERT_NO_FATAL_FAILURE(this->expect_products(all, false, 0));
    for (const int64_t rows : {1, 2, 3, 7, 64}) {
        const std::vector<float> some = this->run(rows, false, true);
        for (int64_t i = 0; i < rows * this->matrix_.outputs; ++i)
            ASSERT_EQ(some[i], all[i]) << "number " << i << " of " << rows << " rows";
    }
}

// To the bit: tiles of any rows and columns, in panels or as one, are what expand_row() gives, rounded once for
// bfloat16.
TYPED_TEST(CompactProductsTest, TilesAreTheirRowsWidened) {
    for (int turn = 0; turn < 40; ++turn) {
        this->fill(1, 1 + this->random_.below(900), this->some_forms());
        const int64_t outputs = this->matrix_.outputs;
        const int64_t depth = this->matrix_.depth;
        const int64_t first = this->random_.below(static_cast<int32_t>(outputs));
        const int64_t count = 1 + this->random_.below(static_cast<int32_t>(outputs - first));
        const int64_t from = 256 * this->random_.below(static_cast<int32_t>((depth + 255) / 256));
        const int64_t columns = 1 + this->random_.below(static_cast<int32_t>(depth - from));
        const int64_t width = turn % 2 == 0 ? count : 16 * (1 + this->random_.below(3));
        const int64_t panels = (count + width - 1) / width;
        SCOPED_TRACE("rows " + std::to_string(first) + " and " + std::to_string(count) + " in all of " +
                     std::to_string(outputs) + ", columns " + std::to_string(from) + " and " + std::to_string(columns) +
                     " in all of " + std::to_string(depth) + ", width " + std::to_string(width));
        std::vector<TypeParam> tile(static_cast<size_t>(panels * width * columns), from_float<TypeParam>(-7));
        expand_tile(this->matrix_.parts, first, count, from, columns, width, tile.data());
        std::vector<float> row(static_cast<size_t>(depth));
        for (int64_t n = 0; n < panels * width; ++n) {
            if (n < count) expand_row(this->matrix_.parts, first + n, row.data());
            for (int64_t k = 0; k < columns; ++k) {
                const TypeParam got = tile[n / width * width * columns + k * width + n % width];
                const float value = n < count ? row[from + k] : 0.0F;
                ASSERT_EQ(to_float(got), to_float(from_float<TypeParam>(value))) << "row " << n << ", column " << k;
            }
        }
    }
}

// A scale that is not finite makes its row NaN, and no other.
TYPED_TEST(CompactProductsTest, ScalesThatAreNotFinite) {
    for (const auto& [name, form] : testing::kCompactForms) {
        if (form.scales == ScaleKind::none) continue;
        this->fill(1, 300, {form, form});
        RandomCompact& source = *this->sources_.front();
        source.blocks_of(0)[1].scales[0] = source.blocks_of(0)[1].scale = {0x7C00};
        auto part = load_compact("w", source.view(), form, *this->pool_);
        ASSERT_TRUE(part.ok());
        this->matrix_.parts.front() = std::move(*part);
        const std::vector<float> y = this->run(1, false, false);
        EXPECT_TRUE(std::isnan(y[0])) << name;
        for (int64_t n = 1; n < this->matrix_.outputs; ++n)
            EXPECT_TRUE(std::isfinite(y[n])) << name << ", output " << n;
    }
}

}  // namespace
}  // namespace nanolith::cpu
