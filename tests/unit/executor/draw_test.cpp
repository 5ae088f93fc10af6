// Tokens that executors draw from the logits that they report, against the definition in float64: every filter, alone
// and together, with few and many rows, small and large vocabularies, and logits that many tokens share.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/draw_definition.h"
#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

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
        SampleParams params{random.below(8) == 0 ? 0 : temperature, one_of(ks), one_of(top_ps), one_of(min_ps),
                            one_of(uniforms)};
        if (random.below(2) == 0) return params;
        const float typical_ps[] = {1, 0.95F, 0.5F, 0.1F};
        const float xtc_thresholds[] = {1, 1, 0.2F, 0.05F, 1e-4F};
        const float surprises[] = {kUnbounded, kUnbounded, 10, 5, 1, -1};
        params.typical_p = one_of(typical_ps);
        params.xtc_threshold = one_of(xtc_thresholds);
        params.most_surprise = one_of(surprises);
        if (random.below(2) == 0) return params;
        for (int32_t i = kNumFilters - 1; i > 0; --i) std::swap(params.order[i], params.order[random.below(i + 1)]);
        return params;
    }

    // Some edits, some bans, and for some rows a mask.
    static void edit(Random& random, int32_t vocab_size, OwnedBatch& batch) {
        for (SampleParams& params : batch.sampling) {
            params.first_edit = static_cast<int32_t>(batch.edits.size());
            if (random.below(2) == 0) {
                for (int32_t token = random.below(50); token < vocab_size; token += 1 + random.below(vocab_size / 5)) {
                    const auto some = [&] { return static_cast<float>(4 * random.uniform() - 2); };
                    const bool bans = random.below(4) == 0;
                    batch.edits.push_back({token, bans ? -kUnbounded : some(), std::exp(some()), some()});
                }
            }
            params.num_edits = static_cast<int32_t>(batch.edits.size()) - params.first_edit;
            if (random.below(4) != 0) continue;
            const size_t words = mask_words(vocab_size);
            params.mask = static_cast<int32_t>(batch.masks.size() / words);
            for (size_t i = 0; i < words; ++i) batch.masks.push_back(static_cast<uint32_t>(random.below(INT32_MAX)));
            batch.masks[batch.masks.size() - words] |= 1U << 7;  // something is left
        }
    }

    // Replaces the logits of some rows of the step that waits for its draws by others.
    static Result<void> replace_logits(Executor& executor, Random& random, size_t num_outputs, int32_t vocab_size) {
        std::vector<float> logits(static_cast<size_t>(vocab_size));
        std::vector<float> found(logits.size());
        for (int32_t row = 0; row < static_cast<int32_t>(num_outputs); row += 1 + random.below(4)) {
            NL_TRY(executor.read_undrawn(row, logits));
            for (float& logit : logits) logit += static_cast<float>(4 * random.uniform() - 2);
            logits[static_cast<size_t>(random.below(vocab_size))] = -kUnbounded;
            NL_TRY(executor.write_undrawn(row, logits));
            NL_TRY(executor.read_undrawn(row, found));
            EXPECT_EQ(found, logits);
        }
        const auto outside = static_cast<int32_t>(num_outputs);
        EXPECT_EQ(executor.read_undrawn(outside, found).error().status, NL_ERROR_INTERNAL);
        EXPECT_EQ(executor.write_undrawn(-1, found).error().status, NL_ERROR_INTERNAL);
        EXPECT_EQ(executor.read_undrawn(0, std::span(found).first(7)).error().status, NL_ERROR_INTERNAL);
        return {};
    }

    // Runs the step, now and then with draws that come after its forward pass, and then perhaps from other logits.
    static Result<void> run(Executor& executor, Random& random, const OwnedBatch& batch, int32_t vocab_size,
                            std::span<int32_t> drawn) {
        if (random.below(2) == 0) return run_step(executor, batch, drawn);
        OwnedBatch late = batch;
        late.draws_late = true;
        late.sampling.clear();
        late.edits.clear();
        late.masks.clear();
        NL_TRY(executor.submit(late));
        EXPECT_EQ(executor.submit(batch).error().status, NL_ERROR_INTERNAL) << "the step before has no draws";
        late.sampling = batch.sampling;
        late.edits = batch.edits;
        late.masks = batch.masks;
        if (random.below(2) == 0) NL_TRY(replace_logits(executor, random, batch.output_rows.size(), vocab_size));
        NL_TRY(executor.submit_draws(late));
        return executor.collect(drawn);
    }

    // Queries for some rows, of given tokens and of those drawn.
    static void ask(Random& random, int32_t vocab_size, OwnedBatch& batch) {
        for (int32_t row = 0; row < static_cast<int32_t>(batch.output_rows.size()); ++row) {
            const int32_t tops[] = {0, 1, 5, kMostTopLogprobs};
            if (random.below(3) == 0)
                batch.logprobs.push_back({row, random.below(vocab_size + 1) - 1, tops[random.below(4)]});
        }
    }

    static double logprob(const std::vector<float>& logits, int32_t token) {
        const double highest = *std::ranges::max_element(logits);
        double total = 0;
        for (const float logit : logits) total += std::exp(static_cast<double>(logit) - highest);
        return static_cast<double>(logits[static_cast<size_t>(token)]) - highest - std::log(total);
    }

    static std::string order_of(const SampleParams& params) {
        std::string order;
        for (const Filter filter : params.order) order += std::to_string(static_cast<int>(filter)) + " ";
        return order;
    }

    // The answers to a query, at the beginning of `answers`.
    static void expect_answers(const std::vector<float>& logits, int32_t token, int32_t top,
                               std::span<const TokenLogprob> answers) {
        EXPECT_EQ(answers[0].token, token);
        EXPECT_NEAR(static_cast<double>(answers[0].logprob), logprob(logits, token), 1e-4);
        std::vector<int32_t> order(logits.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, std::greater<>(), [&](int32_t i) { return logits[static_cast<size_t>(i)]; });
        for (size_t i = 0; i < static_cast<size_t>(top); ++i) {
            EXPECT_EQ(answers[1 + i].token, order[i]) << i;
            EXPECT_NEAR(static_cast<double>(answers[1 + i].logprob), logprob(logits, order[i]), 1e-4) << i;
        }
    }

    // Rows [0, count) draw as random parameters say.
    void draw(RandomModel& model, int32_t count) {
        PagedHarness harness(*backend_, model, options(16, count / 16 + 2, count), seed_);
        ASSERT_TRUE(harness.ready());
        Store tail;
        OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(count)}});
        for (SampleParams& params : batch.sampling) params = random_params(harness.random(), model.spec.vocab_size);
        edit(harness.random(), model.spec.vocab_size, batch);
        ask(harness.random(), model.spec.vocab_size, batch);
        std::vector<int32_t> drawn(batch.sampling.size());
        const auto ran = run(harness.executor(), harness.random(), batch, model.spec.vocab_size, drawn);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        std::vector<float> logits(static_cast<size_t>(model.spec.vocab_size));
        std::vector<float> surprises(drawn.size());
        ASSERT_TRUE(harness.executor().read_surprises(surprises).ok());
        size_t num_answers = 0;
        for (const LogprobQuery& query : batch.logprobs) num_answers += 1 + static_cast<size_t>(query.top);
        std::vector<TokenLogprob> answers(num_answers);
        ASSERT_TRUE(harness.executor().read_logprobs(answers).ok());
        auto query = batch.logprobs.begin();
        size_t answer = 0;
        for (size_t i = 0; i < drawn.size(); ++i) {
            ASSERT_TRUE(harness.executor().read_logits(static_cast<int32_t>(i), logits).ok());
            const SampleParams& p = batch.sampling[i];
            const DrawDefinition definition(logits, draw_rule(batch, i, model.spec.vocab_size));
            ASSERT_TRUE(definition.may_draw(drawn[i]))
                << "token " << drawn[i] << " of " << logits.size() << ", row " << i << " of " << count
                << ", temperature " << p.temperature << ", top_k " << p.top_k << ", top_p " << p.top_p << ", min_p "
                << p.min_p << ", uniform " << p.uniform << ", typical_p " << p.typical_p << ", xtc " << p.xtc_threshold
                << ", most_surprise " << p.most_surprise << ", " << p.num_edits << " edits, mask " << p.mask
                << ", order " << order_of(p);
            if (p.temperature > 0 && std::isfinite(p.most_surprise)) {
                const double exact = -std::log2(definition.probabilities()[static_cast<size_t>(drawn[i])]);
                // Where a bound lies between two tokens to rounding, one more or less may be kept.
                if (std::isfinite(exact)) {
                    EXPECT_NEAR(static_cast<double>(surprises[i]), exact, 0.01) << "row " << i;
                }
            } else {
                EXPECT_EQ(surprises[i], 0);
            }
            if (query == batch.logprobs.end() || query->output_row != static_cast<int32_t>(i)) continue;
            expect_answers(logits, query->token < 0 ? drawn[i] : query->token, query->top,
                           std::span(answers).subspan(answer));
            answer += 1 + static_cast<size_t>(query->top);
            ++query;
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

// A step whose draws are refused is not in flight, and the next one is as if it had not been.
TEST_P(DrawTest, RefusedDrawsLeaveNothingInFlight) {
    RandomModel model(shape_of(1000), GetParam().dtype, seed_);
    PagedHarness harness(*backend_, model, options(16, 8, 16), seed_);
    ASSERT_TRUE(harness.ready());
    Executor& executor = harness.executor();
    Store tail;
    OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(8)}});
    std::vector<int32_t> expected(batch.output_rows.size());
    ASSERT_TRUE(run_step(executor, batch, expected).ok());
    EXPECT_EQ(executor.submit_draws(batch).error().status, NL_ERROR_INTERNAL) << "no step waits for draws";
    std::vector<float> logits(1000);
    EXPECT_EQ(executor.read_undrawn(0, logits).error().status, NL_ERROR_INTERNAL) << "no step waits for draws";
    EXPECT_EQ(executor.write_undrawn(0, logits).error().status, NL_ERROR_INTERNAL) << "no step waits for draws";
    OwnedBatch late = batch;
    late.draws_late = true;
    ASSERT_TRUE(executor.submit(late).ok());
    late.sampling.front().mask = 0;
    EXPECT_EQ(executor.submit_draws(late).error().status, NL_ERROR_INTERNAL) << "there is no mask";
    std::vector<int32_t> drawn(expected.size());
    EXPECT_EQ(executor.collect(drawn).error().status, NL_ERROR_INTERNAL) << "no step is in flight";
    ASSERT_TRUE(run_step(executor, batch, drawn).ok());
    EXPECT_EQ(drawn, expected);
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
