// Hidden states through the step loop: which rows they are of, whatever steps these come in, and what is left where a
// call fails. A hidden state of the fake device says what its row saw.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

constexpr size_t kHidden = 8;  // of fake_spec()

class Embed : public ::testing::TestWithParam<int32_t> {
  protected:
    static FakeSettings with_rows(int32_t max_rows) {
        FakeSettings settings;
        settings.depth = GetParam();
        settings.options.page_size = 16;
        settings.options.max_batch_tokens = max_rows;
        settings.options.max_output_rows = 4;
        return settings;
    }
    // One number of each vector, all of whose numbers are the same.
    static std::vector<float> embed(FakeEngine& engine, Cache& cache, const Tokens& tokens, int32_t pooling,
                                    bool normalized = false) {
        const size_t count = pooling == NL_POOLING_NONE ? tokens.size() : 1;
        std::vector<float> vectors(count * kHidden, -1);
        const auto done = engine->embed(cache, tokens, pooling, normalized, vectors);
        EXPECT_TRUE(done.ok()) << done.error().message;
        std::vector<float> firsts;
        for (size_t i = 0; i < count; ++i) {
            firsts.push_back(vectors[i * kHidden]);
            for (size_t j = 1; j < kHidden; ++j) EXPECT_EQ(vectors[i * kHidden + j], firsts.back());
        }
        return firsts;
    }
    // What the state of each of the tokens from `first` on is.
    static std::vector<float> states(const FakeEngine& engine, const Tokens& tokens, size_t first) {
        std::vector<float> expected;
        for (size_t i = first; i < tokens.size(); ++i) {
            const Tokens seen(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i + 1));
            expected.push_back(static_cast<float>(fake_draw(seen, 0, engine.settings().vocab_size)));
        }
        return expected;
    }
    static int32_t drawn_next(FakeEngine& engine, Cache& cache) {
        Cache* const caches[] = {&cache};
        int32_t token = -1;
        EXPECT_TRUE(engine->decode_step(caches, {&token, 1}).ok());
        return token;
    }
};

TEST_P(Embed, EachPoolingTakesItsRowsHoweverTheyAreCut) {
    for (const int32_t max_rows : {7, 48, 2048}) {
        FakeEngine engine(with_rows(max_rows));
        const Tokens text = tokens_from(5, 100);
        const Tokens before(text.begin(), text.begin() + 21);
        const Tokens rest(text.begin() + 21, text.end());
        const auto expected = states(engine, text, 21);
        double sum = 0;
        for (const float state : expected) sum += static_cast<double>(state);
        const auto mean = static_cast<float>(sum / static_cast<double>(expected.size()));
        const std::map<int32_t, std::vector<float>> wanted = {
            {NL_POOLING_LAST, {expected.back()}}, {NL_POOLING_MEAN, {mean}}, {NL_POOLING_NONE, expected}};
        for (const int32_t pooling : {NL_POOLING_LAST, NL_POOLING_MEAN, NL_POOLING_NONE}) {
            const auto cache = engine.cache();
            ASSERT_TRUE(engine->extend(*cache, before).ok());
            const auto found = embed(engine, *cache, rest, pooling);
            EXPECT_EQ(found, wanted.at(pooling)) << "pooling " << pooling;
            EXPECT_EQ(engine->tokens(*cache), text);
            EXPECT_EQ(drawn_next(engine, *cache), engine.next(text)) << "not what was drawn before the rest";
        }
    }
}

TEST_P(Embed, TheLastTokenOfWhatIsThere) {
    FakeEngine engine(with_rows(48));
    const Tokens text = tokens_from(3, 40);
    const auto chunk = engine->prefill({}, text, 1, {})->chunk;
    const auto behind = engine.cache({chunk});
    EXPECT_EQ(embed(engine, *behind, {}, NL_POOLING_LAST), states(engine, text, 39));
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->extend(*cache, text).ok());
    EXPECT_EQ(embed(engine, *cache, {}, NL_POOLING_LAST), states(engine, text, 39));
    EXPECT_EQ(embed(engine, *cache, {}, NL_POOLING_LAST), states(engine, text, 39));
    EXPECT_EQ(drawn_next(engine, *cache), engine.next(text));
    EXPECT_EQ(embed(engine, *cache, {}, NL_POOLING_NONE).size(), 0U);
    EXPECT_EQ(engine->embed(*cache, {}, NL_POOLING_MEAN, false, {}).error().status, NL_ERROR_INVALID_ARGUMENT);
    const auto empty = engine.cache();
    EXPECT_EQ(engine->embed(*empty, {}, NL_POOLING_LAST, false, {}).error().status, NL_ERROR_INVALID_ARGUMENT);
}

TEST_P(Embed, NormalizedVectorsHaveLengthOne) {
    FakeEngine engine(with_rows(48));
    const auto cache = engine.cache();
    for (const float number : embed(engine, *cache, tokens_from(9, 60), NL_POOLING_NONE, true))
        EXPECT_FLOAT_EQ(number, static_cast<float>(1 / std::sqrt(8.0)));
}

TEST_P(Embed, OthersPagesServeTheLastStateAlone) {
    FakeEngine engine(with_rows(48));
    const Tokens text = tokens_from(3, 100);
    const auto first = engine.cache();
    ASSERT_TRUE(engine->extend(*first, text).ok());
    const auto last = engine.cache();
    EXPECT_EQ(embed(engine, *last, text, NL_POOLING_LAST), states(engine, text, 99));
    EXPECT_EQ(engine->facts(*last).reused, 96);
    const auto each = engine.cache();
    EXPECT_EQ(embed(engine, *each, text, NL_POOLING_NONE), states(engine, text, 0));
    EXPECT_EQ(engine->facts(*each).reused, 0);
}

TEST_P(Embed, AFailedCallLeavesCacheAndVectorsAsTheyWere) {
    FakeEngine engine(with_rows(16));
    const Tokens text = tokens_from(1, 30);
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->extend(*cache, text).ok());
    const int64_t spare = engine.spare_pages();
    for (const int32_t pooling : {NL_POOLING_LAST, NL_POOLING_MEAN, NL_POOLING_NONE}) {
        for (auto* const failures :
             {&engine.record->fail_submit, &engine.record->fail_collect, &engine.record->throw_submit}) {
            *failures = 1;
            std::vector<float> vectors(70 * kHidden, -5);
            const Tokens more = tokens_from(40, 70);
            EXPECT_FALSE(engine->embed(*cache, more, pooling, false, vectors).ok());
            EXPECT_EQ(vectors, std::vector<float>(70 * kHidden, -5));
            EXPECT_EQ(engine->tokens(*cache), text);
            EXPECT_EQ(engine.spare_pages(), spare);
        }
    }
    EXPECT_EQ(drawn_next(engine, *cache), engine.next(text)) << "what was drawn before is still there";
}

TEST_P(Embed, CancelledCallsEnd) {
    FakeEngine engine(with_rows(16));
    engine.record->step_microseconds = 2000;
    const auto cache = engine.cache();
    std::vector<float> vector(kHidden, -5);
    Result<void> outcome;
    std::thread caller([&] { outcome = engine->embed(*cache, tokens_from(1, 3000), NL_POOLING_MEAN, false, vector); });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    engine->cancel(*cache);
    caller.join();
    EXPECT_EQ(outcome.error().status, NL_ERROR_CANCELLED);
    EXPECT_EQ(engine->facts(*cache).tokens, 0);
    EXPECT_EQ(engine.spare_pages(), engine.total_pages());
}

// Threads that embed texts while others generate.
TEST_P(Embed, BesideConversations) {
    FakeEngine engine(with_rows(48));
    const auto talking = engine.cache();
    const auto generation = engine.generate(*talking, tokens_from(2, 30), {.max_tokens = 300});
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
            for (int32_t j = 0; j < 5; ++j) {
                const Tokens text = tokens_from(100 * i + j, 20 + 17 * i);
                auto cache = engine.cache();
                const int32_t pooling = i % 2 == 0 ? NL_POOLING_LAST : NL_POOLING_NONE;
                EXPECT_EQ(embed(engine, *cache, text, pooling),
                          states(engine, text, pooling == NL_POOLING_LAST ? text.size() - 1 : 0));
                engine->release(std::move(cache));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(FakeEngine::read_all(*generation).tokens,
              engine.answer(tokens_from(2, 30), {}, {.max_tokens = 300}).tokens);
}

TEST_P(Embed, CandidatesAreScoredWhereTheyWouldFollow) {
    FakeEngine engine(with_rows(16));
    const auto cache = engine.cache();
    const Tokens text = tokens_from(1, 40);
    const int32_t best = engine.next(text);
    const Tokens candidates = {best, (best + 1) % 1000, best};
    std::vector<float> logprobs(3);
    ASSERT_TRUE(engine->score_next(*cache, text, candidates, logprobs).ok());
    const double total = std::log(std::exp(1.0) + 999);  // the device's logits are 1 for the token drawn, else 0
    EXPECT_FLOAT_EQ(logprobs[0], static_cast<float>(1 - total));
    EXPECT_FLOAT_EQ(logprobs[1], static_cast<float>(-total));
    EXPECT_EQ(logprobs[2], logprobs[0]);
    EXPECT_EQ(engine->tokens(*cache), text);
    EXPECT_EQ(drawn_next(engine, *cache), best);
}

INSTANTIATE_TEST_SUITE_P(Depth, Embed, ::testing::Values(1, 2),
                         [](const auto& instance) { return "Depth" + std::to_string(instance.param); });

}  // namespace
}  // namespace nanolith::testing
