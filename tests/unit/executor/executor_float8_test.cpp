// Executors whose pages are float8 e4m3, against the float64 reference that rounds keys and values so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class Float8PagesTest : public ExecutorTest {
  protected:
    ExecutorOptions float8_options(int32_t page_size, int32_t num_pages) const {
        ExecutorOptions wanted = options(page_size, num_pages);
        wanted.kv_dtype = DType::f8_e4m3;
        return wanted;
    }

    static RandomShape shape_of(int32_t heads, int32_t kv_heads, int32_t head_dim, bool qk_norm) {
        return {
            .num_heads = heads, .num_kv_heads = kv_heads, .head_dim = head_dim, .vocab_size = 130, .qk_norm = qk_norm};
    }

    // Of logits, as an L2 norm over those of a run. What a key or a value is off by before it is stored, about u of it,
    // makes a difference where a boundary between two float8 numbers, d = 2^-4 of it apart or more, lies between. That
    // is seldom, and then the difference is d, so the mean of the squares is u * d. The bound is that of
    // executor_fixture.h, 10 u, with sqrt(u * d) in place of u. At 16 bits u is the rounding of the inputs of the
    // product that makes keys; at 32, of its sum of a hundred numbers or so: two bits more than of one of them.
    double limit() const {
        const double u = GetParam().dtype == DType::f32 ? 0x1p-22 : GetParam().dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
        return 10 * std::sqrt(u * 0x1p-4);
    }

    void expect_near(const Deviation& deviation, const std::string& what) {
        EXPECT_TRUE(deviation.finite) << what;
        EXPECT_LT(deviation.relative, limit()) << what;
        highest_ = std::max(highest_, deviation.relative);
    }

    // measure(seed, runs) appends the deviation of a run. One number on the other side of a boundary is seen by all
    // rows of a run, so a single run may be anywhere; half of nine are not, unless something is wrong.
    template <typename Measure>
    void expect_median_near(const std::string& what, const Measure& measure) {
        std::vector<Deviation> runs;
        for (uint32_t i = 0; i < 9; ++i) {
            measure(seed_ + i, runs);
            if (IsSkipped() || HasFatalFailure()) return;
            EXPECT_TRUE(runs.back().finite) << what;
        }
        std::nth_element(runs.begin(), runs.begin() + 4, runs.end(),
                         [](const Deviation& a, const Deviation& b) { return a.relative < b.relative; });
        expect_near(runs[4], what);
    }

    // Whether the device has kernels for float8 pages of this model; if not, it says so in good words.
    bool is_taken(const RandomModel& model) {
        const auto made = backend_->create_executor(model.spec, model.weights, float8_options(16, 8), {});
        if (made.ok()) return true;
        EXPECT_TRUE(GetParam().cuda) << made.error().message;
        EXPECT_EQ(made.error().status, NL_ERROR_UNSUPPORTED);
        EXPECT_NE(made.error().message.find("kv_dtype is float8_e4m3"), std::string::npos) << made.error().message;
        return false;
    }

    void TearDown() override {
        if (highest_ > 0) std::printf("worst deviation %.2g, bound %.2g\n", highest_, limit());
    }

    double highest_ = 0;
};

TEST_P(Float8PagesTest, KeysAndValuesAreRounded) {
    const RandomShape shapes[] = {shape_of(4, 2, 64, false), shape_of(8, 1, 128, true), shape_of(6, 6, 80, false)};
    Deviation runs;
    for (size_t i = 0; i < 6 * std::size(shapes); ++i) {
        RandomModel model(shapes[i % std::size(shapes)], GetParam().dtype, seed_ + i);
        if (!is_taken(model)) GTEST_SKIP() << "float8 pages: of the CPU alone, says this device";
        PagedHarness harness(*backend_, model, float8_options(32, 40), seed_);
        ASSERT_TRUE(harness.ready());
        Store a, b, tail;
        runs.add(harness.run({{&a, 0, {}, harness.tokens(33)}, {&b, 0, {}, harness.tokens(60)}}));  // chunks
        const Job ab{&tail, 93, {{&b, 0}, {&a, 60}}, harness.tokens(21)};
        runs.add(harness.run({ab}));  // prefill after them
        Job decode = ab;
        for (int step = 0; step < 3; ++step) {
            decode.tokens = harness.tokens(1);
            runs.add(harness.run({decode}));
        }
    }
    // One number on the other side of a boundary is seen by all rows of a run: the mean shows over all runs.
    expect_near(runs, "all runs");
}

// float32: at 16 bits what is seldom there is common, and as large as what float8 rounds.
class Float8BoundTest : public Float8PagesTest {};

TEST_P(Float8BoundTest, UnroundedKeysAndValuesAreFarOutside) {
    RandomModel model(shape_of(4, 2, 64, false), GetParam().dtype, seed_ + 10);
    PagedHarness harness(*backend_, model, float8_options(16, 20), seed_);
    ASSERT_TRUE(harness.ready());
    harness.pretend(model.spec, model.weights);
    Store tail;
    EXPECT_GT(harness.run({{&tail, 0, {}, harness.tokens(40)}}).relative, 3 * limit());
}

TEST_P(Float8PagesTest, WhatIsBeyondTheRangeIsItsEnd) {
    const float factor = 512;
    expect_median_near("values about 512", [&](uint32_t seed, std::vector<Deviation>& runs) {
        RandomModel model(shape_of(4, 2, 64, false), GetParam().dtype, seed);
        for (LayerWeights& layer : model.weights.layers) {
            WeightScales& scales = layer.v_proj.scales;
            scales.block_rows = layer.v_proj.rows;
            scales.block_cols = layer.v_proj.cols;
            scales.data = reinterpret_cast<const std::byte*>(&factor);
        }
        if (!is_taken(model)) GTEST_SKIP() << "float8 pages: of the CPU alone, says this device";
        PagedHarness harness(*backend_, model, float8_options(16, 20), seed);
        ASSERT_TRUE(harness.ready());
        Store tail;
        runs.push_back(harness.run({{&tail, 0, {}, harness.tokens(40)}}));
    });
}

TEST_P(Float8PagesTest, PagesAreCopied) {
    expect_median_near("fork and original", [&](uint32_t seed, std::vector<Deviation>& runs) {
        RandomModel model(shape_of(4, 2, 64, false), GetParam().dtype, seed);
        if (!is_taken(model)) GTEST_SKIP() << "float8 pages: of the CPU alone, says this device";
        PagedHarness harness(*backend_, model, float8_options(16, 12), seed);
        ASSERT_TRUE(harness.ready());
        Store original;
        Deviation deviation = harness.run({{&original, 0, {}, harness.tokens(21)}});
        Store fork = original;
        fork.pages[1] = harness.take_page();
        ASSERT_TRUE(harness.executor().copy_pages(std::vector<PageCopy>{{original.pages[1], fork.pages[1]}}).ok());
        deviation.add(harness.run({{&fork, 0, {}, harness.tokens(1)}, {&original, 0, {}, harness.tokens(2)}}));
        runs.push_back(deviation);
    });
}

// The only kernels on a GPU are those of 16-bit queries, on Hopper, with heads of a multiple of 16 elements.
class Float8RefusedTest : public Float8PagesTest {};

TEST_P(Float8RefusedTest, WhereThereAreNoKernels) {
    RandomModel model(shape_of(4, 2, 24, false), GetParam().dtype, seed_ + 40);
    const auto made = backend_->create_executor(model.spec, model.weights, float8_options(16, 8), {});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().status, NL_ERROR_UNSUPPORTED);
    EXPECT_NE(made.error().message.find("kv_dtype is float8_e4m3"), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().message.find(GetParam().dtype == DType::f32 ? "float32" : "head_dim is 24"),
              std::string::npos)
        << made.error().message;
}

std::vector<Case> cases_where(bool (*wanted)(const Case&)) {
    std::vector<Case> cases;
    std::copy_if(std::begin(kCases), std::end(kCases), std::back_inserter(cases), wanted);
    return cases;
}
std::string name_of(const ::testing::TestParamInfo<Case>& test) {
    return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Backends, Float8PagesTest, ::testing::ValuesIn(cases_where([](const Case& c) {
                             return !c.cuda || c.dtype != DType::f32;
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Backends, Float8BoundTest, ::testing::ValuesIn(cases_where([](const Case& c) {
                             return !c.cuda && c.dtype == DType::f32;
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Backends, Float8RefusedTest,
                         ::testing::ValuesIn(cases_where([](const Case& c) { return c.cuda; })), name_of);

}  // namespace
}  // namespace nanolith::testing
