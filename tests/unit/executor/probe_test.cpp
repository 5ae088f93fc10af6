// Token weights of probes against the reference's softmax weights, over random models, chunks and rows.
#include "backend/probe.h"

#include <algorithm>
#include <numeric>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class ProbeTest : public ExecutorTest {
  protected:
    int32_t below(int32_t limit) { return random_.below(limit); }

    RandomShape random_shape() {
        RandomShape shape;
        shape.num_layers = 2 + below(4);
        shape.num_kv_heads = 1 + below(3);
        shape.num_heads = shape.num_kv_heads * (1 + below(4));
        shape.head_dim = 8 * (1 + below(8));
        shape.qk_norm = below(2) == 0;
        shape.qkv_bias = below(2) == 0;
        shape.layers.resize(static_cast<size_t>(shape.num_layers));
        for (LayerSpec& layer : shape.layers) layer.window = below(3) == 0 ? 20 : 0;
        shape.numbers.attention_softcap = below(3) == 0 ? 5.0F : 0.0F;
        return shape;
    }

    // Chunks, and a sequence with some tokens of its own; further sequences are in the same batch.
    void run(int32_t page_size) {
        RandomModel model(random_shape(), GetParam().dtype, static_cast<uint64_t>(below(1 << 30)));
        PagedHarness harness(*backend_, model, options(page_size, 60), static_cast<uint64_t>(below(1 << 30)));
        ASSERT_TRUE(harness.ready());
        std::vector<Store> stores(static_cast<size_t>(1 + below(3)));
        Store tail;
        Store other;
        Job job{&tail, 0, {}, {}};
        for (Store& store : stores) {
            harness.run({{&store, 0, {}, harness.tokens(1 + below(90))}});
            job.before.push_back({&store, job.own_base});
            job.own_base += store.reference.length;
        }
        if (below(2) == 0) {
            job.tokens = harness.tokens(1 + below(20));
            harness.run({job});
        }
        job.tokens = harness.tokens(1 + below(50));
        const std::vector<Job> jobs = {{&other, 0, {}, harness.tokens(1 + below(20))}, job};
        OwnedBatch batch = harness.make_batch(jobs);
        batch.probes = {{1}};
        harness.run_batch(batch);
        std::vector<float> weights(probed_tokens(batch));
        const auto read = harness.executor().read_token_weights(weights);
        ASSERT_TRUE(read.ok()) << read.error().message;
        harness.run_reference({jobs[0]});
        harness.reference().watch(probe_layers(model.spec));
        harness.run_reference({jobs[1]});
        compare(weights, harness.reference().watched());
    }

    void compare(const std::vector<float>& weights, const std::vector<std::vector<double>>& expected) {
        double sum = 0;
        for (const auto& span : expected) sum += std::accumulate(span.begin(), span.end(), 0.0);
        const double mean = sum / static_cast<double>(weights.size());
        size_t next = 0;
        for (const auto& span : expected) {
            for (const double weight : span) {
                const double limit = 4 * bound(GetParam().dtype).limit * std::max(weight, mean);
                EXPECT_NEAR(weights.at(next++), weight, limit);
            }
        }
        if (!expected.empty()) {
            EXPECT_EQ(next, weights.size());
        }
    }

    Random random_{std::random_device{}()};
};

TEST_P(ProbeTest, TokenWeightsOfRandomModels) {
    random_ = Random(seed_);
    for (int i = 0; i < 6; ++i) run(16 << below(3));
}

TEST_P(ProbeTest, OtherSizesAndSequencesAreRefused) {
    RandomModel model(RandomShape{}, GetParam().dtype, 1);
    PagedHarness harness(*backend_, model, options(16, 20), 1);
    ASSERT_TRUE(harness.ready());
    Store store;
    OwnedBatch batch = harness.make_batch({{&store, 0, {}, harness.tokens(20)}});
    std::vector<int32_t> sampled(batch.output_rows.size());
    batch.probes = {{1}};
    EXPECT_FALSE(harness.executor().submit(batch).ok());
    batch.probes = {{0}, {0}};
    EXPECT_FALSE(harness.executor().submit(batch).ok());
    batch.probes = {{0}};
    ASSERT_TRUE(run_step(harness.executor(), batch, sampled).ok());
    std::vector<float> weights(21);
    EXPECT_FALSE(harness.executor().read_token_weights(weights).ok());
    EXPECT_TRUE(harness.executor().read_token_weights(std::span(weights).first(20)).ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, ProbeTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
