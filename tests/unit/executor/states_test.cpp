// Hidden states that a step is asked for, against the float64 reference: of rows of prefills and decodes, with output
// rows and without.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class StatesTest : public ExecutorTest {
  protected:
    // Runs a step of these jobs that is asked for the hidden states of `rows`, and draws after `outputs` alone.
    void expect_states(PagedHarness& harness, const std::vector<Job>& jobs, const std::vector<int32_t>& rows,
                       const std::vector<int32_t>& outputs, const std::string& what) {
        OwnedBatch batch = harness.make_batch(jobs);
        batch.state_rows = rows;
        batch.output_rows = outputs;
        batch.sampling.resize(outputs.size());
        batch.kept_logits.clear();
        std::vector<int32_t> sampled(outputs.size());
        const auto ran = run_step(harness.executor(), batch, sampled);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        std::vector<Row> expected;
        for (const Job& job : jobs) {
            harness.run_reference({job});
            const auto& states = harness.reference().states();
            expected.insert(expected.end(), states.begin(), states.end());
        }
        std::vector<Row> asked;
        std::vector<std::vector<float>> found;
        for (size_t i = 0; i < rows.size(); ++i) {
            asked.push_back(expected[static_cast<size_t>(rows[i])]);
            found.emplace_back(asked.back().size());
            const auto read = harness.executor().read_state(static_cast<int32_t>(i), found.back());
            ASSERT_TRUE(read.ok()) << read.error().message;
        }
        if (!rows.empty()) expect_close(PagedHarness::compare(found, asked), what);
    }
};

std::vector<int32_t> all_rows(int32_t count) {
    std::vector<int32_t> rows(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) rows[static_cast<size_t>(i)] = i;
    return rows;
}

TEST_P(StatesTest, OfPrefillsAndSlices) {
    RandomShape gemma{.hidden_size = 70, .num_heads = 7, .num_kv_heads = 1, .post_norms = true};
    gemma.numbers.norm_offset = 1;
    gemma.numbers.logit_softcap = 5;
    for (const RandomShape& shape : {RandomShape{.hidden_size = 52, .num_heads = 3, .num_kv_heads = 3}, gemma,
                                     RandomShape{.hidden_size = 4100, .intermediate_size = 64}}) {
        RandomModel model(shape, GetParam().dtype, seed_);
        PagedHarness harness(*backend_, model, options(16, 40, 100), seed_);
        ASSERT_TRUE(harness.ready());
        const std::string what = "hidden " + std::to_string(shape.hidden_size);
        Store tail;
        expect_states(harness, {{&tail, 0, {}, harness.tokens(1)}}, {0}, {}, what + ", a row");
        expect_states(harness, {{&tail, 0, {}, harness.tokens(70)}}, all_rows(70), {}, what + ", all rows");
        expect_states(harness, {{&tail, 0, {}, harness.tokens(33)}}, {2, 3, 32}, {}, what + ", some rows");
        expect_states(harness, {{&tail, 0, {}, harness.tokens(9)}}, {8}, {0, 8}, what + ", beside draws");
    }
}

// Steps of one shape, of which some are asked for states and others are not: devices may record such steps.
TEST_P(StatesTest, OfStepsThatComeAgain) {
    RandomModel model({}, GetParam().dtype, seed_);
    PagedHarness harness(*backend_, model, options(16, 60, 100), seed_);
    ASSERT_TRUE(harness.ready());
    std::vector<Store> tails(3);
    const auto jobs = [&](int32_t rows) {
        std::vector<Job> made;
        for (Store& tail : tails) made.push_back({&tail, 0, {}, harness.tokens(rows)});
        return made;
    };
    for (int step = 0; step < 6; ++step) {
        const std::string what = "step " + std::to_string(step);
        expect_states(harness, jobs(1), {}, {0, 1, 2}, what + " decodes");
        expect_states(harness, jobs(1), {1}, {0, 2}, what + " decodes, and one state");
        expect_states(harness, jobs(5), {4, 9, 14}, {}, what + " prefills");
        expect_states(harness, jobs(5), {}, {}, what + " prefills, and no state");
        expect_close(harness.run(jobs(2)), what + ", logits");
    }
}

TEST_P(StatesTest, AreOfTheStepCollectedLast) {
    RandomModel model({}, GetParam().dtype, seed_);
    PagedHarness harness(*backend_, model, options(16, 20, 100), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    expect_states(harness, {{&tail, 0, {}, harness.tokens(20)}}, {3, 7}, {}, "before");
    std::vector<float> state(static_cast<size_t>(model.spec.hidden_size));
    ASSERT_TRUE(harness.executor().read_state(1, state).ok());
    const std::vector<float> before = state;
    for (const int32_t index : {-1, 2})
        EXPECT_EQ(harness.executor().read_state(index, state).error().status, NL_ERROR_INTERNAL) << index;
    EXPECT_FALSE(harness.executor().read_state(0, std::span(state).first(3)).ok());
    const auto refused = [&](std::vector<int32_t> rows) {
        OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(4)}});
        batch.state_rows = std::move(rows);
        EXPECT_EQ(harness.executor().submit(batch).error().status, NL_ERROR_INTERNAL);
    };
    refused({4});
    refused({-1});
    refused({1, 1});
    refused({2, 1});
    ASSERT_TRUE(harness.executor().read_state(1, state).ok());
    EXPECT_EQ(state, before);
    expect_close(harness.run({{&tail, 0, {}, harness.tokens(4)}}), "after");
    EXPECT_FALSE(harness.executor().read_state(0, state).ok()) << "the step had none";
}

TEST_P(StatesTest, DamageShows) {
    RandomModel model({}, GetParam().dtype, seed_);
    PagedHarness harness(*backend_, model, options(16, 20, 100), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(3)}});
    batch.tokens[2] = model.spec.vocab_size - 1;  // the poisoned one
    batch.state_rows = {2};
    std::vector<int32_t> sampled(3);
    ASSERT_TRUE(run_step(harness.executor(), batch, sampled).ok());
    std::vector<float> state(static_cast<size_t>(model.spec.hidden_size));
    ASSERT_TRUE(harness.executor().read_state(0, state).ok());
    EXPECT_TRUE(std::isnan(state[0]));
}

INSTANTIATE_TEST_SUITE_P(Backends, StatesTest, ::testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace nanolith::testing
