// nl_attention_merge: partial results over disjoint sets of keys give the result over all of them.
#include <cmath>
#include <limits>

#include "ops/device.h"
#include "ops/numbers.h"

namespace nanolith::test {
namespace {

class Merge : public OnDevice {};
NL_ON_EVERY_DEVICE(Merge);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Parts {
    Format format = Format::f32;
    size_t num_parts = 0;
    size_t num_rows = 0;
    size_t num_heads = 0;
    size_t head_dim = 0;
    std::vector<std::byte> outputs;  // strides: rows apart by one more head, parts by one more row
    std::vector<float> lse;

    [[nodiscard]] size_t row_stride() const { return (num_heads + 1) * head_dim; }
    [[nodiscard]] size_t part_stride() const { return (num_rows + 1) * row_stride(); }
    [[nodiscard]] size_t lse_at(size_t part, size_t row, size_t head) const {
        return part * (num_rows * num_heads + 3) + row * num_heads + head;
    }
    [[nodiscard]] size_t at(size_t part, size_t row, size_t head) const {
        return part * part_stride() + row * row_stride() + head * head_dim;
    }
};

// The merge of these parts, which lie at `outputs` and `lse`.
nl_merge_arguments merge_of(const Parts& parts, const Buffer& outputs, const Buffer& lse) {
    auto merge = sized<nl_merge_arguments>();
    merge.dtype = static_cast<int32_t>(parts.format);
    merge.num_heads = static_cast<int32_t>(parts.num_heads);
    merge.head_dim = static_cast<int32_t>(parts.head_dim);
    merge.num_parts = static_cast<int64_t>(parts.num_parts);
    merge.num_rows = static_cast<int64_t>(parts.num_rows);
    merge.outputs = {outputs.data(), static_cast<int64_t>(parts.row_stride()), merge.head_dim};
    merge.part_stride = static_cast<int64_t>(parts.part_stride());
    merge.lse = lse.as<float>();
    merge.lse_part_stride = static_cast<int64_t>(parts.lse_at(1, 0, 0));
    return merge;
}

// Random parts; a share of them is empty, with outputs that must not be used.
Parts random_parts(Random& random, Format format, size_t num_parts, double empty) {
    Parts parts{format, num_parts, 5, 3, 64, {}, {}};
    parts.outputs = poison(format, num_parts * parts.part_stride());
    parts.lse.assign(parts.lse_at(num_parts, 0, 0), std::nanf(""));
    for (size_t part = 0; part < num_parts; ++part) {
        for (size_t row = 0; row < parts.num_rows; ++row) {
            for (size_t head = 0; head < parts.num_heads; ++head) {
                const bool nothing = random.uniform(0, 1) < empty;
                parts.lse[parts.lse_at(part, row, head)] =
                    nothing ? -kInfinity : static_cast<float>(random.uniform(-90, 90) * (part % 2 == 0 ? 0.03 : 1));
                for (size_t i = 0; i < parts.head_dim && !nothing; ++i)
                    put(format, round_to(format, random.uniform(-1, 1)), parts.outputs, parts.at(part, row, head) + i);
            }
        }
    }
    return parts;
}

void expect_merged(const Parts& parts, const std::vector<std::byte>& out, size_t out_row_stride,
                   const std::vector<float>& out_lse) {
    for (size_t row = 0; row < parts.num_rows; ++row) {
        for (size_t head = 0; head < parts.num_heads; ++head) {
            double highest = -std::numeric_limits<double>::infinity();
            for (size_t part = 0; part < parts.num_parts; ++part)
                highest = std::max(highest, static_cast<double>(parts.lse[parts.lse_at(part, row, head)]));
            const bool nothing = std::isinf(highest);
            double total = 0;
            std::vector<double> expected(parts.head_dim, 0);
            for (size_t part = 0; part < parts.num_parts && !nothing; ++part) {
                const double weight = std::exp(static_cast<double>(parts.lse[parts.lse_at(part, row, head)]) - highest);
                if (weight == 0) continue;
                total += weight;
                for (size_t i = 0; i < parts.head_dim; ++i)
                    expected[i] += weight * get(parts.format, parts.outputs, parts.at(part, row, head) + i);
            }
            for (size_t i = 0; i < parts.head_dim; ++i)
                ASSERT_NEAR(get(parts.format, out, row * out_row_stride + head * parts.head_dim + i),
                            nothing ? 0 : expected[i] / total, tolerance(parts.format));
            if (out_lse.empty()) continue;
            const float found = out_lse[row * parts.num_heads + head];
            if (nothing)
                ASSERT_EQ(found, -kInfinity);
            else
                ASSERT_NEAR(static_cast<double>(found), highest + std::log(total), 2e-5);
        }
    }
}

TEST_P(Merge, AgainstFloat64) {
    Random random;
    SCOPED_TRACE(random.seed());
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        for (const size_t num_parts : {1, 2, 3, 40}) {
            for (const double empty : {0.0, 0.5, 1.0}) {
                const Parts parts = random_parts(random, format, num_parts, empty);
                const size_t out_stride = parts.num_heads * parts.head_dim;
                const Buffer outputs(device(), parts.outputs);
                const Buffer lse = Buffer::of(device(), parts.lse);
                const Buffer out(device(), poison(format, parts.num_rows * out_stride));
                const Buffer out_lse(device(), poison(Format::f32, parts.num_rows * parts.num_heads));
                for (float* const wanted : {out_lse.as<float>(), static_cast<float*>(nullptr)}) {
                    nl_merge_arguments merge = merge_of(parts, outputs, lse);
                    merge.out = {out.data(), static_cast<int64_t>(out_stride), 64};
                    merge.out_lse = wanted;
                    NL_CHECK(nl_attention_merge(ops(), &merge));
                    expect_merged(parts, out.download(), out_stride, out_lse.values<float>());
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST_P(Merge, IntoOneOfTheParts) {
    Random random;
    SCOPED_TRACE(random.seed());
    const Parts parts = random_parts(random, Format::f32, 3, 0.2);
    for (const size_t target : {0, 2}) {
        const Buffer outputs(device(), parts.outputs);
        const Buffer lse = Buffer::of(device(), parts.lse);
        nl_merge_arguments merge = merge_of(parts, outputs, lse);
        merge.out = {outputs.as<float>() + parts.at(target, 0, 0), merge.outputs.row_stride, 64};
        merge.out_lse = lse.as<float>() + parts.lse_at(target, 0, 0);
        NL_CHECK(nl_attention_merge(ops(), &merge));
        std::vector<std::byte> found = outputs.download();
        found.erase(found.begin(), found.begin() + static_cast<ptrdiff_t>(parts.at(target, 0, 0) * sizeof(float)));
        std::vector<float> found_lse = lse.values<float>();
        found_lse.erase(found_lse.begin(), found_lse.begin() + static_cast<ptrdiff_t>(parts.lse_at(target, 0, 0)));
        expect_merged(parts, found, parts.row_stride(), found_lse);
        if (HasFatalFailure()) return;
    }
}

// A part whose log-sum-exp is NaN makes its row's head NaN, whatever the other parts are, and no others.
TEST_P(Merge, NotANumber) {
    Random random;
    SCOPED_TRACE(random.seed());
    Parts parts = random_parts(random, Format::f32, 2, 0);
    parts.lse[parts.lse_at(0, 1, 2)] = std::nanf("");
    parts.lse[parts.lse_at(0, 3, 0)] = std::nanf("");
    parts.lse[parts.lse_at(1, 3, 0)] = -kInfinity;
    const size_t stride = parts.num_heads * parts.head_dim;
    const Buffer outputs(device(), parts.outputs);
    const Buffer lse = Buffer::of(device(), parts.lse);
    const Buffer out = Buffer::of(device(), std::vector<float>(parts.num_rows * stride));
    const Buffer out_lse = Buffer::of(device(), std::vector<float>(parts.num_rows * parts.num_heads));
    nl_merge_arguments merge = merge_of(parts, outputs, lse);
    merge.out = {out.data(), static_cast<int64_t>(stride), 64};
    merge.out_lse = out_lse.as<float>();
    NL_CHECK(nl_attention_merge(ops(), &merge));
    const std::vector<float> found = out.values<float>();
    const std::vector<float> found_lse = out_lse.values<float>();
    for (size_t at = 0; at < found_lse.size(); ++at) {
        const bool expected = at == 1 * parts.num_heads + 2 || at == 3 * parts.num_heads;
        EXPECT_EQ(std::isnan(found_lse[at]), expected) << "row " << at / parts.num_heads;
        for (size_t i = 0; i < parts.head_dim; ++i)
            ASSERT_EQ(std::isnan(found[at * parts.head_dim + i]), expected) << "row " << at / parts.num_heads;
    }
}

TEST_P(Merge, Arguments) {
    const Buffer tensor(device(), std::vector<std::byte>(4096));
    float* const p = tensor.as<float>();
    auto good = sized<nl_merge_arguments>();
    good.dtype = NL_DTYPE_F32;
    good.num_heads = 1;
    good.head_dim = 64;
    good.num_parts = 1;
    good.num_rows = 1;
    good.outputs = {p, 64, 64};
    good.part_stride = 64;
    good.lse = p + 512;
    good.lse_part_stride = 1;
    good.out = {p, 64, 64};
    expect_struct_checked("merge", good, [&](const nl_merge_arguments* m) { return nl_attention_merge(ops(), m); });
    EXPECT_INVALID("ops", nl_attention_merge(nullptr, &good));

    const auto merge = [&](auto change) {
        nl_merge_arguments changed = good;
        change(changed);
        return nl_attention_merge(ops(), &changed);
    };
    EXPECT_EQ(merge([](auto& m) { m.num_rows = 0; }), NL_OK);
    EXPECT_INVALID("merge.dtype is 4", merge([](auto& m) { m.dtype = NL_DTYPE_F8_E4M3; }));
    EXPECT_INVALID("merge.dtype is 0", merge([](auto& m) { m.dtype = NL_DTYPE_AUTO; }));
    for (const int64_t parts : {INT64_MIN, int64_t{0}, INT64_MAX})
        EXPECT_INVALID("merge.num_parts is " + std::to_string(parts), merge([&](auto& m) { m.num_parts = parts; }));
    for (const int64_t rows : {int64_t{-1}, INT64_MAX})
        EXPECT_INVALID("merge.num_rows is", merge([&](auto& m) { m.num_rows = rows; }));
    for (const int32_t heads : {-1, 0, INT32_MAX})
        EXPECT_INVALID("merge.num_heads is", merge([&](auto& m) { m.num_heads = heads; }));
    for (const int32_t dim : {-1, 0, 257, INT32_MAX})
        EXPECT_INVALID("merge.head_dim is", merge([&](auto& m) { m.head_dim = dim; }));
    EXPECT_INVALID("merge.outputs.data is NULL", merge([](auto& m) { m.outputs.data = nullptr; }));
    EXPECT_INVALID("merge.lse is NULL", merge([](auto& m) { m.lse = nullptr; }));
    EXPECT_INVALID("merge.out.data is NULL", merge([](auto& m) { m.out.data = nullptr; }));
    EXPECT_INVALID("merge.part_stride is -64", merge([](auto& m) {
                       m.num_parts = 2;
                       m.part_stride = -64;
                   }));
    EXPECT_INVALID("merge.lse_part_stride is", merge([](auto& m) {
                       m.num_parts = 2;
                       m.lse_part_stride = INT64_MAX;
                   }));
    EXPECT_INVALID("merge.outputs.row_stride is", merge([](auto& m) {
                       m.num_rows = 2;
                       m.outputs.row_stride = INT64_MIN;
                   }));
    EXPECT_INVALID("merge.out.row_stride is 32", merge([](auto& m) {
                       m.num_rows = 2;
                       m.out.row_stride = 32;
                   }));
    EXPECT_INVALID("merge.out.head_stride is 0", merge([](auto& m) {
                       m.num_heads = 2;
                       m.out = {m.out.data, 128, 0};
                   }));
}

}  // namespace
}  // namespace nanolith::test
