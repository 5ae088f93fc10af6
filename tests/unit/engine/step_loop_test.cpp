// The step loop on a device that notices every wrong page, slot, position and token.
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

using std::chrono::milliseconds;

class StepLoop : public ::testing::TestWithParam<int32_t> {
  protected:
    static FakeSettings settings() {
        FakeSettings settings;
        settings.depth = GetParam();
        settings.options.page_size = 16;
        settings.options.max_batch_tokens = 64;
        return settings;
    }
    static Tokens decode(FakeEngine& engine, Cache& cache, int count) {
        Tokens tokens;
        while (count-- > 0) {
            Cache* const caches[] = {&cache};
            int32_t token = -1;
            const auto stepped = engine->decode_step(caches, {&token, 1});
            EXPECT_TRUE(stepped.ok()) << stepped.error().message;
            tokens.push_back(token);
        }
        return tokens;
    }
};

TEST_P(StepLoop, DecodeStepsFollowAnExtend) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    Tokens context = tokens_from(3, 200);
    ASSERT_TRUE(engine->extend(*cache, context).ok());
    for (const int32_t token : decode(engine, *cache, 40)) {
        EXPECT_EQ(token, engine.next(context));
        context.push_back(token);
    }
    EXPECT_EQ(engine->tokens(*cache), context);
}

TEST_P(StepLoop, AGenerationDrawsWhatDecodeStepsDo) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    const Tokens prompt = tokens_from(5, 100);
    GenerationOptions options;
    options.max_tokens = 75;
    const auto generation = engine.generate(*cache, prompt, options);
    const auto answer = FakeEngine::read_all(*generation);
    EXPECT_EQ(answer.tokens, engine.answer(prompt, {}, options).tokens);
    EXPECT_EQ(answer.end, NL_END_LENGTH);
    EXPECT_EQ(engine.record->most_in_flight, GetParam());
    Tokens all = prompt;
    all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
    EXPECT_EQ(engine->tokens(*cache), all);
    EXPECT_EQ(decode(engine, *cache, 1)[0], engine.next(all));
    EXPECT_EQ(generation->fact(NL_GENERATION_TOKENS), 75);
    EXPECT_EQ(generation->fact(NL_GENERATION_END), NL_END_LENGTH);
    EXPECT_GE(generation->fact(NL_GENERATION_FIRST_TOKEN_US), generation->fact(NL_GENERATION_QUEUED_US));
}

// What is sent of the page table is what is new in it, however long the context is.
TEST_P(StepLoop, TheCostOfATokenDoesNotGrowWithTheContext) {
    FakeSettings long_settings = settings();
    long_settings.max_context = 40'000;
    long_settings.options.num_pages = 3000;
    long_settings.options.max_batch_tokens = 4096;
    FakeEngine engine(long_settings);
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->extend(*cache, tokens_from(1, 32'768)).ok());
    engine.record->changed_entries.clear();
    decode(engine, *cache, 200);
    size_t sent = 0;
    for (const size_t entries : engine.record->changed_entries) {
        EXPECT_LE(entries, 2049U);  // at most once the block of the list is too small and moves
        sent += entries;
    }
    EXPECT_LE(sent, 2049U + 200 / 16);
}

TEST_P(StepLoop, ATruncatedCacheAndOneOfChunksAloneDrawAgain) {
    FakeEngine engine(settings());
    const auto chunk = engine->prefill({}, tokens_from(10, 50), 1, {});
    ASSERT_TRUE(chunk.ok());
    const auto cache = engine.cache({chunk->chunk});
    Tokens context = tokens_from(10, 50);
    const int32_t first = decode(engine, *cache, 1)[0];
    EXPECT_EQ(first, engine.next(context));
    ASSERT_TRUE(engine->truncate(*cache, 31).ok());
    context.resize(31);
    EXPECT_EQ(decode(engine, *cache, 1)[0], engine.next(context));
    context.push_back(engine.next(context));
    const auto answer = FakeEngine::read_all(*engine.generate(*cache, {}, {.max_tokens = 9}));
    EXPECT_EQ(answer.tokens, engine.answer(context, {}, {.max_tokens = 9}).tokens);
}

TEST_P(StepLoop, AForkGoesItsOwnWay) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    Tokens context = tokens_from(4, 21);
    ASSERT_TRUE(engine->extend(*cache, context).ok());
    auto fork = engine->fork(*cache);
    ASSERT_TRUE(fork.ok());
    SamplingOptions sampling;
    sampling.temperature = 1;
    sampling.seed = 77;
    ASSERT_TRUE(engine->set_sampling(**fork, sampling).ok());
    const auto a = engine.generate(*cache, {}, {.max_tokens = 50});
    const auto b = engine.generate(**fork, {}, {.max_tokens = 50});
    EXPECT_EQ(FakeEngine::read_all(*a).tokens, engine.answer(context, {}, {.max_tokens = 50}).tokens);
    EXPECT_EQ(FakeEngine::read_all(*b).tokens, engine.answer(context, sampling, {.max_tokens = 50}).tokens);
}

TEST_P(StepLoop, AConversationIsInEveryStepOfALongPrefill) {
    FakeEngine engine(settings());
    engine.record->step_microseconds = 500;
    const auto cache = engine.cache();
    const auto generation = engine.generate(*cache, tokens_from(2, 5), {.max_tokens = 1000});
    int32_t token = 0;
    ASSERT_TRUE(generation->next(5000, {&token, 1}, {}).ok());
    std::thread prefill([&] { EXPECT_TRUE(engine->prefill({}, tokens_from(8, 2000), 1, {}).ok()); });
    prefill.join();
    generation->cancel();
    const std::lock_guard lock(engine.record->mutex);
    for (size_t step = 0; step < engine.record->rows.size(); ++step)
        EXPECT_TRUE(engine.record->rows[step] <= 5 || engine.record->outputs[step] >= 1) << "step " << step;
}

TEST_P(StepLoop, AReaderWhoDoesNotReadHoldsUpHisOwnGenerationAlone) {
    FakeEngine engine(settings());
    const auto slow = engine.cache();
    const auto fast = engine.cache();
    GenerationOptions options;
    options.max_tokens = 200;
    options.buffer_tokens = 4;
    const auto unread = engine.generate(*slow, tokens_from(2, 5), options);
    options.buffer_tokens = 1024;
    const auto read = engine.generate(*fast, tokens_from(3, 5), options);
    EXPECT_EQ(FakeEngine::read_all(*read).tokens.size(), 200U);
    EXPECT_LE(unread->fact(NL_GENERATION_TOKENS), 4 + 1);
    EXPECT_EQ(FakeEngine::read_all(*unread).tokens, engine.answer(tokens_from(2, 5), {}, options).tokens);
}

TEST_P(StepLoop, ReadersOfNothingDoNotHoldUp) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    const auto generation = engine.generate(*cache, tokens_from(2, 5), {.max_tokens = 100, .buffer_tokens = 1});
    const auto piece = generation->next(10'000, {}, {});
    ASSERT_TRUE(piece.ok());
    EXPECT_EQ(piece->end, NL_END_LENGTH);
    EXPECT_EQ(engine->facts(*cache).tokens, 105);
}

TEST_P(StepLoop, AGeneratingCacheIsBusyForOthers) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    const auto generation = engine.generate(*cache, tokens_from(2, 5), {.buffer_tokens = 2});
    Cache* const caches[] = {cache.get()};
    int32_t token = 0;
    std::vector<float> logits(1000);
    EXPECT_EQ(engine->extend(*cache, tokens_from(1, 3)).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->fork(*cache).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->truncate(*cache, 1).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->logits(*cache, logits).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->set_sampling(*cache, {}).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->decode_step(caches, {&token, 1}).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->generate(*cache, {}, {}).error().status, NL_ERROR_BUSY);
    EXPECT_GE(engine->facts(*cache).tokens, 0);
    generation->cancel();
    EXPECT_EQ(FakeEngine::read_all(*generation).end, NL_END_CANCELLED);
    EXPECT_TRUE(engine->extend(*cache, tokens_from(1, 3)).ok());
}

TEST_P(StepLoop, CancelledDeadlinedAndFullOnesSaySo) {
    FakeSettings small = settings();
    small.max_context = 100;
    FakeEngine engine(small);
    const auto cache = engine.cache();
    const auto full = FakeEngine::read_all(*engine.generate(*cache, tokens_from(2, 60)));
    EXPECT_EQ(full.end, NL_END_CONTEXT_FULL);
    EXPECT_EQ(full.tokens.size(), 40U);
    EXPECT_EQ(engine->generate(*cache, {}, {}).error().status, NL_ERROR_CONTEXT_FULL);

    const auto late = engine.cache();
    const auto deadline = engine.generate(*late, tokens_from(2, 10), {.deadline_ms = 30, .buffer_tokens = 1});
    std::this_thread::sleep_for(milliseconds(60));
    EXPECT_EQ(FakeEngine::read_all(*deadline).end, NL_END_DEADLINE);
}

TEST_P(StepLoop, ACancelledPromptLeavesTheCacheAsItWas) {
    FakeEngine engine(settings());
    engine.record->step_microseconds = 2000;
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->extend(*cache, tokens_from(1, 20)).ok());
    const int64_t spare = engine.spare_pages();
    const auto generation = engine.generate(*cache, tokens_from(9, 2000), {});
    std::this_thread::sleep_for(milliseconds(10));
    generation->cancel();
    EXPECT_EQ(FakeEngine::read_all(*generation).end, NL_END_CANCELLED);
    EXPECT_EQ(engine->tokens(*cache), tokens_from(1, 20));
    EXPECT_EQ(engine.spare_pages(), spare);
    EXPECT_EQ(decode(engine, *cache, 1)[0], engine.next(tokens_from(1, 20)));
}

TEST_P(StepLoop, BlockingCallsAreCancelledFromOtherThreads) {
    FakeEngine engine(settings());
    engine.record->step_microseconds = 2000;
    const auto cache = engine.cache();
    Result<void> extended;
    std::thread caller([&] { extended = engine->extend(*cache, tokens_from(1, 3000)); });
    std::this_thread::sleep_for(milliseconds(10));
    engine->cancel(*cache);
    caller.join();
    ASSERT_FALSE(extended.ok());
    EXPECT_EQ(extended.error().status, NL_ERROR_CANCELLED);
    EXPECT_EQ(engine->facts(*cache).tokens, 0);
    Result<Engine::Prefilled> prefilled = Error{};
    std::thread chunk([&] { prefilled = engine->prefill({}, tokens_from(1, 3000), 1, {}); });
    std::this_thread::sleep_for(milliseconds(10));
    engine->cancel_all();
    chunk.join();
    EXPECT_EQ(prefilled.error().status, NL_ERROR_CANCELLED);
    EXPECT_EQ(engine.spare_pages(), engine.total_pages());
}

TEST_P(StepLoop, AFailedStepEndsWhatWasInItAndNothingElse) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    Tokens context = tokens_from(1, 20);
    ASSERT_TRUE(engine->extend(*cache, context).ok());
    for (auto* const failures :
         {&engine.record->fail_submit, &engine.record->fail_collect, &engine.record->throw_submit}) {
        *failures = 1;
        Cache* const caches[] = {cache.get()};
        int32_t token = -1;
        ASSERT_TRUE(engine->decode_step(caches, {&token, 1}).ok());  // known since the step before
        context.push_back(token);
        const auto stepped = engine->decode_step(caches, {&token, 1});
        ASSERT_FALSE(stepped.ok());
        EXPECT_EQ(engine->tokens(*cache), context);
        ASSERT_TRUE(engine->extend(*cache, Tokens{1}).ok());
        context.push_back(1);
        *failures = 1;
        const auto generation = engine.generate(*cache, tokens_from(50, 30));
        const auto answer = FakeEngine::read_all(*generation);
        EXPECT_EQ(answer.end, NL_END_ERROR);
        EXPECT_EQ(engine->tokens(*cache), context);
        ASSERT_TRUE(engine->set_sampling(*cache, {}).ok());
        ASSERT_TRUE(engine->extend(*cache, Tokens{2}).ok());
        context.push_back(2);
    }
    EXPECT_EQ(decode(engine, *cache, 1)[0], engine.next(context));
}

TEST_P(StepLoop, ThreadsThatEachStepACacheShareSteps) {
    FakeEngine engine(settings());
    engine.record->step_microseconds = 1000;
    constexpr int kThreads = 8;
    constexpr int kSteps = 50;
    std::vector<std::unique_ptr<Cache>> caches;
    for (int i = 0; i < kThreads; ++i) {
        caches.push_back(engine.cache());
        ASSERT_TRUE(engine->extend(*caches.back(), tokens_from(i, 10 + i)).ok());
    }
    {
        const std::lock_guard lock(engine.record->mutex);
        engine.record->rows.clear();
    }
    std::vector<std::thread> threads;
    for (auto& cache : caches) threads.emplace_back([&] { decode(engine, *cache, kSteps); });
    for (auto& thread : threads) thread.join();
    const std::lock_guard lock(engine.record->mutex);
    // Were they not gathered, each step would have a row or two of the eight.
    EXPECT_LT(engine.record->rows.size(), static_cast<size_t>(kThreads * kSteps / 2));
}

TEST_P(StepLoop, TheQueueHasALimit) {
    FakeSettings limited = settings();
    limited.options.queue_limit = 2;
    FakeEngine engine(limited);
    std::vector<std::unique_ptr<Cache>> caches;
    std::vector<std::shared_ptr<Generation>> generations;
    for (int i = 0; i < 2; ++i) {
        caches.push_back(engine.cache());
        generations.push_back(engine.generate(*caches.back(), tokens_from(i, 4), {.buffer_tokens = 1}));
    }
    const auto third = engine.cache();
    EXPECT_EQ(engine->generate(*third, tokens_from(1, 4), {}).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->extend(*third, tokens_from(1, 4)).error().status, NL_ERROR_BUSY);
    EXPECT_EQ(engine->facts(*third).tokens, 0);
    generations[0]->cancel();
    EXPECT_EQ(FakeEngine::read_all(*generations[0]).end, NL_END_CANCELLED);
    EXPECT_TRUE(engine->extend(*third, tokens_from(1, 4)).ok());
}

TEST_P(StepLoop, HigherPrioritiesAreServedFirst) {
    FakeSettings narrow = settings();
    narrow.options.max_batch_tokens = 16;
    FakeEngine engine(narrow);
    engine.record->hold = 1;
    const auto busy = engine.cache();
    const auto first = engine.generate(*busy, tokens_from(1, 4), {.max_tokens = 1});
    std::vector<std::unique_ptr<Cache>> caches;
    std::vector<std::shared_ptr<Generation>> generations;
    for (int i = 0; i < 10; ++i) {
        caches.push_back(engine.cache());
        generations.push_back(
            engine.generate(*caches.back(), tokens_from(i, 64), {.max_tokens = 1, .priority = i == 9 ? 5 : 0}));
    }
    engine.record->hold = 0;
    for (auto& generation : generations) FakeEngine::read_all(*generation);
    const int64_t urgent = generations[9]->fact(NL_GENERATION_QUEUED_US);
    EXPECT_LT(urgent, generations[8]->fact(NL_GENERATION_QUEUED_US));
}

TEST_P(StepLoop, GenerationsThatLackPagesWaitForOthersAndTheLastGivesWay) {
    FakeSettings scarce = settings();
    scarce.options.num_pages = 8;  // of 16 tokens
    FakeEngine engine(scarce);
    std::vector<std::shared_ptr<Generation>> generations;
    for (int i = 0; i < 4; ++i) {
        auto cache = engine.cache();
        generations.push_back(engine.generate(*cache, tokens_from(i, 20), {.max_tokens = 60}));
        engine->release(std::move(cache));  // so that the pages go back when the generation ends
    }
    int ended = 0;
    for (size_t i = 0; i < generations.size(); ++i) {
        const auto answer = FakeEngine::read_all(*generations[i]);
        const auto expected = engine.answer(tokens_from(static_cast<int32_t>(i), 20), {}, {.max_tokens = 60});
        ASSERT_LE(answer.tokens.size(), expected.tokens.size());
        EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), expected.tokens.begin()));
        if (answer.end == NL_END_LENGTH) ++ended;
        EXPECT_TRUE(answer.end == NL_END_LENGTH || answer.end == NL_END_ERROR);
    }
    EXPECT_GE(ended, 1);
    EXPECT_EQ(engine.spare_pages(), 8);
}

TEST_P(StepLoop, TheDescriptorIsReadableWhileThereIsSomethingToRead) {
    FakeEngine engine(settings());
    const auto cache = engine.cache();
    engine.record->hold = 1;
    const auto generation = engine.generate(*cache, tokens_from(2, 5), {.max_tokens = 2});
    const auto descriptor = generation->descriptor();
    ASSERT_TRUE(descriptor.ok());
    EXPECT_EQ(*generation->descriptor(), *descriptor);
    pollfd poller{*descriptor, POLLIN, 0};
    EXPECT_EQ(poll(&poller, 1, 20), 0);
    engine.record->hold = 0;
    EXPECT_EQ(poll(&poller, 1, 10'000), 1);
    FakeEngine::read_all(*generation);
    EXPECT_EQ(poll(&poller, 1, 0), 1);  // the end stays
}

TEST_P(StepLoop, AnEngineGoesWhileAFreedGenerationRuns) {
    for (int round = 0; round < 20; ++round) {
        FakeEngine engine(settings());
        auto cache = engine.cache();
        auto generation = engine.generate(*cache, tokens_from(2, 50));
        if (round % 2 == 0) generation->cancel();
        generation.reset();
        engine->release(std::move(cache));
    }
}

INSTANTIATE_TEST_SUITE_P(Depth, StepLoop, ::testing::Values(1, 2));

}  // namespace
}  // namespace nanolith::testing
