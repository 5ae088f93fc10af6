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
    [[nodiscard]] nl_const_rows input(const Buffer& buffer) const {
        return {buffer.data(), static_cast<int64_t>(row_stride()), static_cast<int64_t>(head_stride())};
    }
    [[nodiscard]] nl_rows output(const Buffer& buffer) const {
        return {buffer.data(), static_cast<int64_t>(row_stride()), static_cast<int64_t>(head_stride())};
    }
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
                const nl_rms_norm_arguments norm{.struct_size = sizeof(norm),
                                                 .dtype = static_cast<int32_t>(format),
                                                 .num_heads = static_cast<int32_t>(shape.heads),
                                                 .size = static_cast<int32_t>(shape.size),
                                                 .epsilon = static_cast<float>(epsilon),
                                                 .num_rows = static_cast<int64_t>(shape.rows),
                                                 .x = shape.input(from),
                                                 .weight = factors.data(),
                                                 .y = shape.output(to)};
                NL_CHECK(nl_rms_norm(ops(), &norm));
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
    const nl_rms_norm_arguments norm{.struct_size = sizeof(norm),
                                     .dtype = NL_DTYPE_F32,
                                     .num_heads = 1,
                                     .size = 64,
                                     .epsilon = 1e-6F,
                                     .num_rows = 1,
                                     .x = {x.data(), 64, 64},
                                     .weight = weight.data(),
                                     .y = {x.data(), 64, 64}};
    NL_CHECK(nl_rms_norm(ops(), &norm));
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
                const nl_rope_arguments rope{.struct_size = sizeof(rope),
                                             .dtype = static_cast<int32_t>(format),
                                             .num_heads = static_cast<int32_t>(shape.heads),
                                             .head_dim = static_cast<int32_t>(head_dim),
                                             .num_rows = static_cast<int64_t>(shape.rows),
                                             .x = shape.input(from),
                                             .positions = at.as<int32_t>(),
                                             .frequencies = turns.as<float>(),
                                             .y = shape.output(to)};
                NL_CHECK(nl_rope(ops(), &rope));
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

TEST_P(NormRope, RmsNormArguments) {
    const Buffer tensor(device(), std::vector<std::byte>(4096));
    float* const x = tensor.as<float>();
    const nl_rms_norm_arguments good{.struct_size = sizeof(good),
                                     .dtype = NL_DTYPE_F32,
                                     .num_heads = 1,
                                     .size = 64,
                                     .epsilon = 0,
                                     .num_rows = 1,
                                     .x = {x, 64, 64},
                                     .weight = x + 64,
                                     .y = {x, 64, 64}};
    expect_struct_checked("norm", good, [&](const nl_rms_norm_arguments* n) { return nl_rms_norm(ops(), n); });
    EXPECT_INVALID("ops", nl_rms_norm(nullptr, &good));

    const auto norm = [&](auto change) {
        nl_rms_norm_arguments changed = good;
        change(changed);
        return nl_rms_norm(ops(), &changed);
    };
    EXPECT_EQ(norm([](auto& n) { n.num_rows = 0; }), NL_OK);
    for (const int32_t dtype : {-1, 0, 4, INT32_MAX})
        EXPECT_INVALID("norm.dtype is", norm([&](auto& n) { n.dtype = dtype; }));
    for (const int64_t rows : {INT64_MIN, INT64_MAX})
        EXPECT_INVALID("norm.num_rows is", norm([&](auto& n) { n.num_rows = rows; }));
    for (const int32_t heads : {0, -1, INT32_MAX})
        EXPECT_INVALID("norm.num_heads is", norm([&](auto& n) { n.num_heads = heads; }));
    for (const int32_t size : {0, -1, 65537}) EXPECT_INVALID("norm.size is", norm([&](auto& n) { n.size = size; }));
    for (const float epsilon : {-1.0F, std::nanf(""), INFINITY})
        EXPECT_INVALID("norm.epsilon is", norm([&](auto& n) { n.epsilon = epsilon; }));
    EXPECT_INVALID("norm.x.data is NULL", norm([](auto& n) { n.x.data = nullptr; }));
    EXPECT_INVALID("norm.weight is NULL", norm([](auto& n) { n.weight = nullptr; }));
    EXPECT_INVALID("norm.y.data is NULL", norm([](auto& n) { n.y.data = nullptr; }));
    EXPECT_INVALID("norm.x.row_stride is", norm([](auto& n) {
                       n.num_rows = 2;
                       n.x.row_stride = INT64_MAX;
                   }));
    EXPECT_INVALID("norm.y.row_stride is 4", norm([](auto& n) {
                       n.num_rows = 2;
                       n.y.row_stride = 4;
                   }));
}

TEST_P(NormRope, RopeArguments) {
    const Buffer tensor(device(), std::vector<std::byte>(4096));
    float* const x = tensor.as<float>();
    const nl_rope_arguments good{.struct_size = sizeof(good),
                                 .dtype = NL_DTYPE_F32,
                                 .num_heads = 1,
                                 .head_dim = 64,
                                 .num_rows = 1,
                                 .x = {x, 64, 64},
                                 .positions = tensor.as<int32_t>() + 512,
                                 .frequencies = x + 768,
                                 .y = {x, 64, 64}};
    expect_struct_checked("rope", good, [&](const nl_rope_arguments* r) { return nl_rope(ops(), r); });
    EXPECT_INVALID("ops", nl_rope(nullptr, &good));

    const auto rope = [&](auto change) {
        nl_rope_arguments changed = good;
        change(changed);
        return nl_rope(ops(), &changed);
    };
    EXPECT_EQ(rope([](auto& r) { r.num_rows = 0; }), NL_OK);
    for (const int32_t dtype : {-1, 0, 4, INT32_MAX})
        EXPECT_INVALID("rope.dtype is", rope([&](auto& r) { r.dtype = dtype; }));
    for (const int64_t rows : {INT64_MIN, INT64_MAX})
        EXPECT_INVALID("rope.num_rows is", rope([&](auto& r) { r.num_rows = rows; }));
    for (const int32_t heads : {0, INT32_MAX})
        EXPECT_INVALID("rope.num_heads is", rope([&](auto& r) { r.num_heads = heads; }));
    for (const int32_t dim : {0, -2, 1, 63, 258, INT32_MAX})
        EXPECT_INVALID("rope.head_dim is", rope([&](auto& r) { r.head_dim = dim; }));
    EXPECT_INVALID("rope.x.data is NULL", rope([](auto& r) { r.x.data = nullptr; }));
    EXPECT_INVALID("rope.positions is NULL", rope([](auto& r) { r.positions = nullptr; }));
    EXPECT_INVALID("rope.frequencies is NULL", rope([](auto& r) { r.frequencies = nullptr; }));
    EXPECT_INVALID("rope.y.data is NULL", rope([](auto& r) { r.y.data = nullptr; }));
}

}  // namespace
}  // namespace nanolith::test
