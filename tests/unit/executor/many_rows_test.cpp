// Steps of 2 to 125 rows of models with matrices of random sizes: the kernels that a GPU has for few rows, those for
// many, and the change from the one to the other.
#include <gtest/gtest.h>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class ManyRowsTest : public ExecutorTest {
  protected:
    // Prefills of so many tokens, each in one step.
    void expect_prefills(const RandomShape& shape, std::initializer_list<int32_t> counts) {
        SCOPED_TRACE("hidden " + std::to_string(shape.hidden_size) + ", MLP " +
                     std::to_string(shape.intermediate_size) + ", heads " + std::to_string(shape.num_heads) +
                     ", vocabulary " + std::to_string(shape.vocab_size));
        RandomModel model(shape, GetParam().dtype, seed_);
        PagedHarness harness(*backend_, model, model.weights, options(16, 40, 260), seed_);
        ASSERT_TRUE(harness.ready());
        ExecutorTest::expect_prefills(harness, model.spec.experts.count > 0, counts, "16-bit or float32 weights");
    }
};

// Rows of whole lines of 64 columns, as the kernels for few rows on Hopper GPUs need them.
TEST_P(ManyRowsTest, OfWholeLines) {
    Random random(seed_);
    for (int32_t kind = 0; kind < 4; ++kind) {
        RandomShape shape;
        shape.num_layers = 1;
        shape.head_dim = 64;
        shape.hidden_size = 64 * (1 + random.below(12));
        shape.intermediate_size = 64 * (1 + random.below(14));
        shape.num_heads = shape.num_kv_heads * (1 + random.below(4));
        shape.vocab_size = 20 + random.below(900);
        shape.post_norms = kind == 1;
        shape.tied = shape.mlp_bias = kind == 2;
        shape.numbers.activation = kind == 3 ? Activation::gelu_tanh : Activation::silu;
        expect_prefills(
            shape, {2 + random.below(15), 17 + random.below(16), 33 + random.below(32), 64, 65 + random.below(32)});
    }
}

TEST_P(ManyRowsTest, OfOddSizes) {
    Random random(seed_);
    RandomShape shape;
    shape.hidden_size = 32 * (1 + 2 * random.below(6));
    shape.intermediate_size = 8 * (1 + random.below(40));
    expect_prefills(shape, {9 + random.below(50), 65 + random.below(60)});
}

// Models with experts, in steps that give each expert tens or hundreds of rows. The kernel for Hopper GPUs takes an
// expert's rows in tiles of up to 128, and divides the work of a tile of at most 64 rows in another way. With these
// numbers of rows some experts have one tile and others several, and tiles of both kinds occur.
TEST_P(ManyRowsTest, OfExperts) {
    Random random(seed_);
    for (int32_t turn = 0; turn < 2; ++turn) {
        RandomShape shape;
        shape.num_layers = 1;
        shape.hidden_size = 8 * (1 + random.below(70));
        const int32_t count = turn == 0 ? 1 + random.below(3) : 3 + random.below(6);
        const int32_t top_k = 1 + random.below(std::min(count, 3));
        shape.numbers.experts = {count, top_k, 4 * (1 + random.below(80)), true};
        SCOPED_TRACE(std::to_string(top_k) + " of " + std::to_string(count) + " experts with " +
                     std::to_string(shape.numbers.experts.intermediate_size));
        const int32_t least = 32 * count / top_k;
        expect_prefills(shape, {std::min(least + 1 + random.below(40), 260), 130 + random.below(130)});
    }
}

INSTANTIATE_TEST_SUITE_P(All, ManyRowsTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
