// Tokens that executors draw from the logits that they report, against the definition in float64: every filter, alone
// and together, with few and many rows, small and large vocabularies, and logits that many tokens share.
#include <cmath>
#include <cstring>
#include <vector>

#include "support/draw_definition.h"
#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class DrawTest : public ExecutorTest {
  protected:
    static RandomShape shape_of(int32_t vocab_size) {
        RandomShape shape;
        shape.num_layers = 1;
        shape.hidden_size = 32;
        shape.vocab_size = vocab_size;
        return shape;
    }

    static SampleParams random_params(Random& random, int32_t vocab_size) {
        const auto one_of = [&](const auto& values) {
            return values[static_cast<size_t>(random.below(static_cast<int32_t>(std::size(values))))];
        };
        const int32_t ks[] = {0, 0, 1, 2, 40, 199, 200, 201, 400, vocab_size - 1, vocab_size, vocab_size + 5};
        const float top_ps[] = {1, 1, 0.999F, 0.9F, 0.5F, 1e-9F};
        const float min_ps[] = {0, 0, 0.02F, 1};
        const double uniforms[] = {0, 1 - 0x1p-53, random.uniform(), random.uniform(), random.uniform()};
        const auto temperature = static_cast<float>(std::exp(6 * random.uniform() - 4));
        return {random.below(8) == 0 ? 0 : temperature, one_of(ks), one_of(top_ps), one_of(min_ps), one_of(uniforms)};
    }

    // Rows [0, count) draw as random parameters say.
    void draw(RandomModel& model, int32_t count) {
        PagedHarness harness(*backend_, model, options(16, count / 16 + 2, count), seed_);
        ASSERT_TRUE(harness.ready());
        Store tail;
        OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(count)}});
        for (SampleParams& params : batch.sampling) params = random_params(harness.random(), model.spec.vocab_size);
        std::vector<int32_t> drawn(batch.sampling.size());
        ASSERT_TRUE(run_step(harness.executor(), batch, drawn).ok());
        std::vector<float> logits(static_cast<size_t>(model.spec.vocab_size));
        for (size_t i = 0; i < drawn.size(); ++i) {
            ASSERT_TRUE(harness.executor().read_logits(static_cast<int32_t>(i), logits).ok());
            const SampleParams& p = batch.sampling[i];
            EXPECT_TRUE(DrawDefinition(logits, p).may_draw(drawn[i]))
                << "token " << drawn[i] << " of " << logits.size() << ", row " << i << " of " << count
                << ", temperature " << p.temperature << ", top_k " << p.top_k << ", top_p " << p.top_p << ", min_p "
                << p.min_p << ", uniform " << p.uniform;
        }
    }
};

TEST_P(DrawTest, DrawsAsDefined) {
    for (const int32_t vocab_size : {101, 1000, 5003, 20000}) {
        RandomModel model(shape_of(vocab_size), GetParam().dtype, seed_);
        draw(model, 24);
    }
}

TEST_P(DrawTest, DrawsForManyRows) {
    RandomModel model(shape_of(2048), GetParam().dtype, seed_ + 1);
    draw(model, 140);
}

// Tokens share their logits with hundreds of others.
TEST_P(DrawTest, DrawsAmongEqualLogits) {
    for (const size_t distinct : {1, 7, 90}) {
        RandomModel model(shape_of(20000), GetParam().dtype, seed_ + distinct);
        WeightView& head = model.weights.head;
        const size_t row = static_cast<size_t>(head.cols) * dtype_bytes(head.dtype);
        std::vector<std::byte> repeated(row * static_cast<size_t>(head.rows));
        for (size_t i = 0; i < static_cast<size_t>(head.rows); ++i)
            std::memcpy(repeated.data() + i * row, head.data + i % distinct * row, row);
        head.data = repeated.data();
        draw(model, 16);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, DrawTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
