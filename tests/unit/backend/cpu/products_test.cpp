// Products of rows with weights against float64, over random shapes: few rows and many, sizes that no vector divides.
#include "backend/cpu/products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/random_model.h"

namespace nanolith::cpu {
namespace {

using testing::Random;

template <typename T>
T number(float value) {
    if constexpr (std::is_same_v<T, float>)
        return value;
    else
        return to_bfloat16(value);
}

struct Shape {
    int64_t rows;
    int64_t outputs;
    int64_t depth;
};

std::string describe(const Shape& shape) {
    return std::to_string(shape.rows) + " rows, " + std::to_string(shape.outputs) + " outputs, depth " +
           std::to_string(shape.depth);
}

template <typename T>
class ProductsTest : public ::testing::Test {
  protected:
    // Numbers of variance 1 in w, x and y.
    void fill(const Shape& shape) {
        shape_ = shape;
        const auto fill = [this](auto& numbers, int64_t size) {
            using Number = typename std::decay_t<decltype(numbers)>::value_type;
            numbers.resize(static_cast<size_t>(size));
            for (auto& value : numbers) value = number<Number>(random_.centered());
        };
        const int64_t padded = padded_rows(shape.rows);
        fill(w_, shape.outputs * shape.depth);
        fill(x_, padded * shape.depth);
        fill(y_, padded * shape.outputs);
    }

    std::vector<float> run(bool accumulate, bool batch_invariant) {
        auto products = Products<T>::create(*pool_, shape_.rows, shape_.depth, batch_invariant);
        EXPECT_TRUE(products.ok());
        const Matrix<T> matrix{w_.data(), shape_.outputs, shape_.depth, {}};
        EXPECT_TRUE(products->prepare(matrix, shape_.rows).ok());
        std::vector<float> y = y_;
        std::vector<T> x = x_;
        EXPECT_TRUE(products->run(matrix, x.data(), shape_.rows, y.data(), accumulate).ok());
        return y;
    }

    // Each sum within the error that float32 sums of as many terms can have at most, in whatever order.
    void expect_products(const std::vector<float>& y, bool accumulate) const {
        const double unit = static_cast<double>(shape_.depth + 1) * 0x1p-24;
        for (int64_t r = 0; r < shape_.rows; ++r) {
            for (int64_t n = 0; n < shape_.outputs; ++n) {
                const float before = accumulate ? y_[r * shape_.outputs + n] : 0.0F;
                double sum = before;
                double size = std::fabs(before);
                for (int64_t k = 0; k < shape_.depth; ++k) {
                    const double term = static_cast<double>(to_float(w_[n * shape_.depth + k])) *
                                        static_cast<double>(to_float(x_[r * shape_.depth + k]));
                    sum += term;
                    size += std::fabs(term);
                }
                const float got = y[r * shape_.outputs + n];
                const bool same = std::isfinite(sum) ? std::fabs(got - sum) <= unit * size
                                  : std::isnan(sum)  ? std::isnan(got)
                                                     : got == sum;
                ASSERT_TRUE(same) << "row " << r << ", output " << n << " is " << got << ": expected " << sum;
            }
        }
    }

    const uint64_t seed_ = std::random_device{}();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
    Random random_{seed_};
    std::unique_ptr<ThreadPool> pool_ = ThreadPool::create(2);
    Shape shape_{};
    std::vector<T> w_, x_;
    std::vector<float> y_;
};

using Types = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(ProductsTest, Types);

TYPED_TEST(ProductsTest, FewRowsOfRandomShapes) {
    for (int64_t rows = 1; rows <= 9; ++rows) {
        for (int turn = 0; turn < 8; ++turn) {
            this->fill({rows, 1 + this->random_.below(150), 1 + this->random_.below(turn % 2 == 0 ? 80 : 2500)});
            SCOPED_TRACE(describe(this->shape_));
            const bool accumulate = turn % 4 < 2;
            ASSERT_NO_FATAL_FAILURE(this->expect_products(this->run(accumulate, false), accumulate));
        }
    }
}

TYPED_TEST(ProductsTest, ManyRowsOfRandomShapes) {
    for (int turn = 0; turn < 12; ++turn) {
        this->fill({10 + this->random_.below(turn % 3 == 0 ? 300 : 40), 1 + this->random_.below(200),
                    1 + this->random_.below(turn % 2 == 0 ? 80 : 2500)});
        SCOPED_TRACE(describe(this->shape_));
        const bool accumulate = turn % 4 < 2;
        ASSERT_NO_FATAL_FAILURE(this->expect_products(this->run(accumulate, false), accumulate));
    }
}

// A NaN or an infinity reaches the sums that have it as a term, and no others.
TYPED_TEST(ProductsTest, NanAndInfinity) {
    for (const int64_t rows : {1, 3, 8, 30}) {
        this->fill({rows, 70, 1063});
        SCOPED_TRACE(describe(this->shape_));
        const auto put = [this](auto& numbers, int64_t row, float value) {
            const int64_t k = this->random_.below(static_cast<int32_t>(this->shape_.depth));
            numbers[row * this->shape_.depth + k] = number<TypeParam>(value);
        };
        put(this->w_, 5, std::numeric_limits<float>::quiet_NaN());
        put(this->w_, 69, std::numeric_limits<float>::infinity());
        put(this->x_, rows - 1, -std::numeric_limits<float>::infinity());
        ASSERT_NO_FATAL_FAILURE(this->expect_products(this->run(false, false), false));
    }
}

// To the bit: what a row's sums are does not depend on how many other rows there are.
TYPED_TEST(ProductsTest, BatchInvariant) {
    this->fill({137, 83, 1500});
    const std::vector<float> all = this->run(false, true);
    ASSERT_NO_FATAL_FAILURE(this->expect_products(all, false));
    for (const int64_t rows : {1, 2, 3, 7, 64, 121}) {
        this->shape_.rows = rows;
        const std::vector<float> some = this->run(false, true);
        for (int64_t i = 0; i < rows * this->shape_.outputs; ++i)
            ASSERT_EQ(some[i], all[i]) << "number " << i << " of " << rows << " rows";
    }
}

}  // namespace
}  // namespace nanolith::cpu
