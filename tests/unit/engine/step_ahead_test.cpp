// Rows that the step loop computes before nl_decode_step asks for them (src/engine/ahead.cpp): callers see nothing of
// them but the time they save.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

using std::chrono::milliseconds;

constexpr int32_t kPageSize = 16;

class StepAhead : public ::testing::TestWithParam<int32_t> {
  protected:
    static FakeSettings settings() {
        FakeSettings settings;
        settings.depth = GetParam();
        settings.options.page_size = kPageSize;
        return settings;
    }

    StepAhead() : engine_(settings()), cache_(engine_.cache()) {
        context_ = tokens_from(3, 20);
        EXPECT_TRUE(engine_->extend(*cache_, context_).ok());
    }
    // A row may still be computed for it: it goes as a handle of the C ABI does, under the engine's mutex.
    ~StepAhead() override {
        if (cache_) engine_->release(std::move(cache_));
    }

    void decode(int count) {
        while (count-- > 0) {
            Cache* const caches[] = {cache_.get()};
            int32_t token = -1;
            const auto stepped = engine_->decode_step(caches, {&token, 1});
            ASSERT_TRUE(stepped.ok()) << stepped.error().message;
            EXPECT_EQ(token, engine_.next(context_, sampling_));
            context_.push_back(token);
        }
    }

    size_t num_steps() {
        const std::lock_guard lock(engine_.record->mutex);
        return engine_.record->rows.size();
    }
    void wait_for_steps(size_t count) {
        for (int i = 0; i < 5000 && num_steps() < count; ++i) std::this_thread::sleep_for(milliseconds(1));
        EXPECT_EQ(num_steps(), count);
    }

    FakeEngine engine_;
    std::unique_ptr<Cache> cache_;
    SamplingOptions sampling_;
    Tokens context_;
};

TEST_P(StepAhead, BeginsWithTheSecondStepInARow) {
    const size_t before = num_steps();  // the extend; its draw is the first decode step's token
    decode(1);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(num_steps(), before);
    decode(1);
    wait_for_steps(before + 2);  // the second token's, and the row of the third
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(num_steps(), before + 2) << "only one row is computed ahead";
    EXPECT_EQ(engine_->facts(*cache_).tokens, 22);
    EXPECT_EQ(engine_->tokens(*cache_), context_);
    decode(1);
    wait_for_steps(before + 3);
}

TEST_P(StepAhead, AnotherCallBetweenBeginsAnew) {
    decode(1);
    ASSERT_TRUE(engine_->set_sampling(*cache_, sampling_).ok());
    const size_t before = num_steps();
    decode(1);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(num_steps(), before + 1);
}

// Whether it comes while the row is in flight or after it has ended.
TEST_P(StepAhead, EveryOtherCallFindsTheCacheAsItShouldBe) {
    for (const int32_t step_microseconds : {0, 3000}) {
        engine_.record->step_microseconds = step_microseconds;
        decode(3);
        auto fork = engine_->fork(*cache_);
        ASSERT_TRUE(fork.ok());
        EXPECT_EQ(engine_->tokens(**fork), context_);
        engine_->release(std::move(*fork));
        decode(4);
        const Tokens more = tokens_from(11, 3);
        ASSERT_TRUE(engine_->extend(*cache_, more).ok());
        context_.insert(context_.end(), more.begin(), more.end());
        decode(4);
        context_.resize(context_.size() - 2);
        ASSERT_TRUE(engine_->truncate(*cache_, context_.size()).ok());
        decode(3);
        sampling_.temperature = 1;
        sampling_.seed = 5;
        ASSERT_TRUE(engine_->set_sampling(*cache_, sampling_).ok());
        decode(3);
        GenerationOptions options;
        options.max_tokens = 5;
        const auto generation = engine_.generate(*cache_, {}, options);
        const auto drawn = FakeEngine::read_all(*generation).tokens;
        EXPECT_EQ(drawn, engine_.answer(context_, sampling_, options).tokens);
        context_.insert(context_.end(), drawn.begin(), drawn.end());
        decode(3);
    }
}

TEST_P(StepAhead, TakesNoPage) {
    while (context_.size() % kPageSize != 0) decode(1);
    decode(kPageSize);
    // The next row would begin a page.
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(engine_->facts(*cache_).private_pages, static_cast<int64_t>(context_.size()) / kPageSize);
    EXPECT_EQ(engine_.spare_pages(), engine_.total_pages() - engine_->facts(*cache_).private_pages);
}

TEST_P(StepAhead, AFreedCacheGivesItsPagesBackAtOnce) {
    engine_.record->step_microseconds = 5000;
    decode(3);
    engine_->release(std::move(cache_));
    EXPECT_EQ(engine_.spare_pages(), engine_.total_pages());
}

TEST_P(StepAhead, CancellingWhileNobodyWaitsEndsNothing) {
    engine_.record->step_microseconds = 5000;
    decode(3);
    engine_->cancel(*cache_);
    engine_->cancel_all();
    decode(3);
}

TEST_P(StepAhead, ItsFailureIsNobodysAndTheNextCallComputesTheRow) {
    for (auto* const failures :
         {&engine_.record->fail_submit, &engine_.record->fail_collect, &engine_.record->throw_submit}) {
        decode(3);
        std::this_thread::sleep_for(milliseconds(20));  // the fourth token is drawn
        *failures = 1;
        decode(1);  // and the row after it fails
        for (int i = 0; i < 1000 && *failures > 0; ++i) std::this_thread::sleep_for(milliseconds(1));
        EXPECT_EQ(*failures, 0);
        std::this_thread::sleep_for(milliseconds(20));
        decode(3);
    }
}

// All threads' rows are in every step: none waits for a thread to come back.
TEST_P(StepAhead, ThreadsAreInEveryStepTogether) {
    constexpr int kThreads = 8;
    constexpr int kSteps = 60;
    std::vector<std::unique_ptr<Cache>> caches;
    for (int i = 0; i < kThreads; ++i) {
        caches.push_back(engine_.cache());
        ASSERT_TRUE(engine_->extend(*caches.back(), tokens_from(i, 10 + i)).ok());
    }
    engine_.record->step_microseconds = 3000;
    const size_t before = num_steps();
    std::vector<std::thread> threads;
    for (auto& cache : caches) {
        threads.emplace_back([&] {
            for (int i = 0; i < kSteps; ++i) {
                Cache* const one[] = {cache.get()};
                int32_t token = -1;
                EXPECT_TRUE(engine_->decode_step(one, {&token, 1}).ok());
            }
        });
    }
    for (auto& thread : threads) thread.join();
    for (auto& cache : caches) engine_->release(std::move(cache));
    EXPECT_LT(num_steps() - before, static_cast<size_t>(kSteps) * 2);
}

INSTANTIATE_TEST_SUITE_P(Depths, StepAhead, ::testing::Values(1, 2));

}  // namespace
}  // namespace nanolith::testing
