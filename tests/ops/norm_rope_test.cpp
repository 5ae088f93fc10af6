// nl_rms_norm and nl_rope against float64, strided and in place.
#include <cmath>

#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

class NormRope : public OnDevice {};
NL_ON_EVERY_DEVICE(NormRope);

// A tensor [rows][heads][size] with rows and heads further apart than they take.
struct Strided {
    size_t rows, heads, size;
    [[nodiscard]] size_t head_stride() const { return (size + 15) / 8 * 8; }
    [[nodiscard]] size_t row_stride() const { return heads * head_stride() + 24; }
    [[nodiscard]] size_t elements() const { return rows * row_stride(); }
    [[nodiscard]] size_t at(size_t row, size_t head) const { return row * row_stride() + head * head_stride(); }
};

std::vector<std::byte> random_tensor(Random& random, Format format, const Strided& shape, double bound) {
    std::vector<std::byte> tensor = poison(format, shape.elements());
    for (size_t row = 0; row < shape.rows; ++row) {
        for (size_t head = 0; head < shape.heads; ++head) {
            for (size_t i = 0; i < shape.size; ++i)
                put(format, round_to(format, random.uniform(-bound, bound)), tensor, shape.at(row, head) + i);
        }
    }
    return tensor;
}

// A result in `format`: one rounding of the exact value, and float32 before it.
double allowed(Format format, double exact) {
    const double relative = format == Format::f32 ? 2e-6 : format == Format::f16 ? 0x1p-10 : 0x1p-7;
    return relative * std::fabs(exact) + 2e-6;
}

void expect_gaps_untouched(Format format, const Strided& shape, const std::vector<std::byte>& tensor) {
    for (size_t row = 0; row < shape.rows; ++row) {
        for (size_t head = 0; head < shape.heads; ++head) {
            for (size_t i = shape.size; i < shape.head_stride(); ++i)
                ASSERT_TRUE(std::isnan(get(format, tensor, shape.at(row, head) + i)));
        }
    }
}

TEST_P(NormRope, RmsNorm) {
    Random random;
    SCOPED_TRACE(random.seed());
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        for (const Strided& shape : {Strided{1, 1, 8}, Strided{3, 1, 4096}, Strided{5, 7, 128}, Strided{2, 3, 80}}) {
            const std::vector<std::byte> x = random_tensor(random, format, shape, 5);
            const std::vector<std::byte> weight = random_tensor(random, format, {1, 1, shape.size}, 2);
            const double epsilon = 1e-5;
            for (const bool in_place : {false, true}) {
                const Buffer from(device(), x);
                const Buffer factors(device(), weight);
                const Buffer to = in_place ? from : Buffer(device(), poison(format, shape.elements()));
                NL_CHECK(nl_rms_norm(ops(), static_cast<int32_t>(format), static_cast<int64_t>(shape.rows),
                                     static_cast<int32_t>(shape.heads), static_cast<int32_t>(shape.size), from.data(),
                                     static_cast<int64_t>(shape.row_stride()),
                                     static_cast<int64_t>(shape.head_stride()), factors.data(),
                                     static_cast<float>(epsilon), to.data(), static_cast<int64_t>(shape.row_stride()),
                                     static_cast<int64_t>(shape.head_stride())));
                const std::vector<std::byte> y = to.download();
                for (size_t row = 0; row < shape.rows; ++row) {
                    for (size_t head = 0; head < shape.heads; ++head) {
                        double squares = 0;
                        for (size_t i = 0; i < shape.size; ++i)
                            squares += std::pow(get(format, x, shape.at(row, head) + i), 2);
                        const double scale = 1 / std::sqrt(squares / static_cast<double>(shape.size) + epsilon);
                        for (size_t i = 0; i < shape.size; ++i) {
                            const double exact =
                                get(format, x, shape.at(row, head) + i) * scale * get(format, weight, i);
                            ASSERT_NEAR(get(format, y, shape.at(row, head) + i), exact, allowed(format, exact));
                        }
                    }
                }
                expect_gaps_untouched(format, shape, y);
            }
        }
    }
}

TEST_P(NormRope, RmsNormOfZerosIsZero) {
    const Buffer x = Buffer::of(device(), std::vector<float>(64, 0.0F));
    const Buffer weight = Buffer::of(device(), std::vector<float>(64, 1.0F));
    NL_CHECK(nl_rms_norm(ops(), NL_DTYPE_F32, 1, 1, 64, x.data(), 64, 64, weight.data(), 1e-6F, x.data(), 64, 64));
    EXPECT_EQ(x.values<float>(), std::vector<float>(64, 0.0F));
}

TEST_P(NormRope, Rope) {
    Random random;
    SCOPED_TRACE(random.seed());
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        for (const size_t head_dim : {64, 80, 128, 256}) {
            const Strided shape{6, 5, head_dim};
            const std::vector<std::byte> x = random_tensor(random, format, shape, 2);
            const std::vector<float> frequencies = rope_frequencies(static_cast<int32_t>(head_dim));
            std::vector<int32_t> positions{0, 1, 131071};
            while (positions.size() < shape.rows) positions.push_back(random.integer(0, 200000));
            for (const bool in_place : {false, true}) {
                const Buffer from(device(), x);
                const Buffer to = in_place ? from : Buffer(device(), poison(format, shape.elements()));
                const Buffer at = Buffer::of(device(), positions);
                const Buffer turns = Buffer::of(device(), frequencies);
                NL_CHECK(nl_rope(ops(), static_cast<int32_t>(format), 6, 5, static_cast<int32_t>(head_dim), from.data(),
                                 static_cast<int64_t>(shape.row_stride()), static_cast<int64_t>(shape.head_stride()),
                                 at.as<int32_t>(), turns.as<float>(), to.data(),
                                 static_cast<int64_t>(shape.row_stride()), static_cast<int64_t>(shape.head_stride())));
                const std::vector<std::byte> y = to.download();
                for (size_t row = 0; row < shape.rows; ++row) {
                    for (size_t head = 0; head < shape.heads; ++head) {
                        std::vector<double> exact(head_dim);
                        for (size_t i = 0; i < head_dim; ++i) exact[i] = get(format, x, shape.at(row, head) + i);
                        rotate_head(exact.data(), frequencies, positions[row]);
                        for (size_t i = 0; i < head_dim; ++i)
                            ASSERT_NEAR(get(format, y, shape.at(row, head) + i), exact[i], allowed(format, 2.83));
                    }
                }
                expect_gaps_untouched(format, shape, y);
            }
        }
    }
}

TEST_P(NormRope, Arguments) {
    const Buffer tensor(device(), std::vector<std::byte>(4096));
    float* const x = tensor.as<float>();
    int32_t* const positions = tensor.as<int32_t>() + 512;
    const auto norm = [&](int32_t dtype, int64_t rows, int32_t heads, int32_t size, float epsilon) {
        return nl_rms_norm(ops(), dtype, rows, heads, size, x, 64, 64, x, epsilon, x, 64, 64);
    };
    EXPECT_EQ(norm(NL_DTYPE_F32, 0, 1, 64, 0), NL_OK);
    for (const int32_t dtype : {-1, 0, 4, INT32_MAX}) EXPECT_INVALID("dtype is", norm(dtype, 1, 1, 64, 0));
    for (const int64_t rows : {INT64_MIN, INT64_MAX}) EXPECT_INVALID("num_rows is", norm(1, rows, 1, 64, 0));
    for (const int32_t heads : {0, -1, INT32_MAX}) EXPECT_INVALID("num_heads is", norm(1, 1, heads, 64, 0));
    for (const int32_t size : {0, -1, 65537}) EXPECT_INVALID("size is", norm(1, 1, 1, size, 0));
    for (const float epsilon : {-1.0F, std::nanf(""), INFINITY})
        EXPECT_INVALID("epsilon is", norm(1, 1, 1, 64, epsilon));
    EXPECT_INVALID("ops", nl_rms_norm(nullptr, 1, 1, 1, 64, x, 64, 64, x, 0, x, 64, 64));
    EXPECT_INVALID("x is NULL", nl_rms_norm(ops(), 1, 1, 1, 64, nullptr, 64, 64, x, 0, x, 64, 64));
    EXPECT_INVALID("weight", nl_rms_norm(ops(), 1, 1, 1, 64, x, 64, 64, nullptr, 0, x, 64, 64));
    EXPECT_INVALID("y is NULL", nl_rms_norm(ops(), 1, 1, 1, 64, x, 64, 64, x, 0, nullptr, 64, 64));
    EXPECT_INVALID("x_row_stride is", nl_rms_norm(ops(), 1, 2, 1, 64, x, INT64_MAX, 64, x, 0, x, 64, 64));
    EXPECT_INVALID("y_row_stride is 4", nl_rms_norm(ops(), 1, 2, 1, 64, x, 64, 64, x, 0, x, 4, 64));

    const auto rope = [&](int32_t dtype, int64_t rows, int32_t heads, int32_t dim) {
        return nl_rope(ops(), dtype, rows, heads, dim, x, 64, 64, positions, x, x, 64, 64);
    };
    EXPECT_EQ(rope(NL_DTYPE_F32, 0, 1, 64), NL_OK);
    for (const int32_t dtype : {-1, 0, 4, INT32_MAX}) EXPECT_INVALID("dtype is", rope(dtype, 1, 1, 64));
    for (const int64_t rows : {INT64_MIN, INT64_MAX}) EXPECT_INVALID("num_rows is", rope(1, rows, 1, 64));
    for (const int32_t heads : {0, INT32_MAX}) EXPECT_INVALID("num_heads is", rope(1, 1, heads, 64));
    for (const int32_t dim : {0, -2, 1, 63, 258, INT32_MAX}) EXPECT_INVALID("head_dim is", rope(1, 1, 1, dim));
    EXPECT_INVALID("ops", nl_rope(nullptr, 1, 1, 1, 64, x, 64, 64, positions, x, x, 64, 64));
    EXPECT_INVALID("x is NULL", nl_rope(ops(), 1, 1, 1, 64, nullptr, 64, 64, positions, x, x, 64, 64));
    EXPECT_INVALID("positions", nl_rope(ops(), 1, 1, 1, 64, x, 64, 64, nullptr, x, x, 64, 64));
    EXPECT_INVALID("frequencies", nl_rope(ops(), 1, 1, 1, 64, x, 64, 64, positions, nullptr, x, 64, 64));
    EXPECT_INVALID("y is NULL", nl_rope(ops(), 1, 1, 1, 64, x, 64, 64, positions, x, nullptr, 64, 64));
}

}  // namespace
}  // namespace nanolith::test
