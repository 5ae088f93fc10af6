// Who waits for whom in the step loop, counted in steps of the fake device.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

class StepLoopFairness : public ::testing::TestWithParam<int32_t> {
  protected:
    static FakeSettings settings(int32_t max_batch_tokens) {
        FakeSettings settings;
        settings.depth = GetParam();
        settings.max_context = 8192;
        settings.options.page_size = 16;
        settings.options.num_pages = 4096;
        settings.options.max_batch_tokens = max_batch_tokens;
        return settings;
    }
    static size_t steps_of(FakeEngine& engine) {
        const std::lock_guard lock(engine.record->mutex);
        return engine.record->rows.size();
    }
};

// Prefills of 4,000 tokens take 63 steps each. They draw nothing, so the first step with an output is the extend's
// last.
TEST_P(StepLoopFairness, AFewTokensDoNotWaitForStrangersPrefills) {
    for (const int32_t strangers : {1, 6}) {
        FakeEngine engine(settings(64));
        engine.record->step_microseconds = 200;
        const auto cache = engine.cache();
        engine.record->hold = 1;
        std::vector<std::thread> prefills;
        for (int32_t i = 0; i < strangers; ++i)
            prefills.emplace_back([&, i] { EXPECT_TRUE(engine->prefill({}, tokens_from(i, 4000), 1, {}).ok()); });
        while (steps_of(engine) == 0) std::this_thread::yield();
        // All have queued by then; a machine so busy that they have not only makes the test easier to pass.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::thread extend([&] { EXPECT_TRUE(engine->extend(*cache, tokens_from(7, 8)).ok()); });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        engine.record->hold = 0;
        extend.join();
        for (std::thread& prefill : prefills) prefill.join();
        const std::lock_guard lock(engine.record->mutex);
        const auto& outputs = engine.record->outputs;
        const auto drew = std::ranges::find_if(outputs, [](size_t count) { return count > 0; });
        EXPECT_LT(drew - outputs.begin(), 10) << strangers << " strangers";
        EXPECT_GT(outputs.size(), 60U * static_cast<size_t>(strangers));
    }
}

// Short prefills come for as long as the long one lasts, each as soon as the one before has ended.
TEST_P(StepLoopFairness, ALongPrefillDoesNotWaitForManyShortOnes) {
    FakeEngine engine(settings(64));
    engine.record->step_microseconds = 100;
    std::atomic<bool> ended = false;
    std::vector<std::thread> others;
    for (int32_t i = 0; i < 12; ++i) {
        others.emplace_back([&] {
            for (int32_t round = 0; round < 1000 && !ended; ++round) {
                auto cache = engine.cache();
                EXPECT_TRUE(engine->extend(*cache, tokens_from(round, 16)).ok());
                engine->release(std::move(cache));
            }
        });
    }
    while (steps_of(engine) < 5) std::this_thread::yield();
    const size_t before = steps_of(engine);
    EXPECT_TRUE(engine->prefill({}, tokens_from(3, 1600), 1, {}).ok());
    const size_t steps = steps_of(engine) - before;
    ended = true;
    for (std::thread& other : others) other.join();
    EXPECT_LT(steps, 200U);  // alone it takes 25
}

// A call for 6 caches beside 8 threads with a cache each, where a step has 8 rows.
TEST_P(StepLoopFairness, ABatchDoesNotStarveWhileOthersStepCachesOneByOne) {
    FakeEngine engine(settings(8));
    engine.record->step_microseconds = 200;
    constexpr int kSteps = 40;
    const auto begun = [&](int32_t first) {
        auto cache = engine.cache();
        EXPECT_TRUE(engine->extend(*cache, tokens_from(first, 5)).ok());
        return cache;
    };
    std::vector<std::unique_ptr<Cache>> batch;
    for (int32_t i = 0; i < 6; ++i) batch.push_back(begun(i));
    std::atomic<bool> ended = false;
    std::vector<std::thread> others;
    for (int32_t i = 0; i < 8; ++i) {
        others.emplace_back([&, i] {
            auto cache = begun(10 + i);
            for (int32_t step = 0; step < 2000 && !ended; ++step) {
                Cache* const caches[] = {cache.get()};
                int32_t token = 0;
                EXPECT_TRUE(engine->decode_step(caches, {&token, 1}).ok());
            }
            engine->release(std::move(cache));
        });
    }
    std::vector<Cache*> caches;
    for (const auto& cache : batch) caches.push_back(cache.get());
    std::vector<int32_t> tokens(caches.size());
    const size_t before = steps_of(engine);
    for (int step = 0; step < kSteps; ++step) EXPECT_TRUE(engine->decode_step(caches, tokens).ok());
    const size_t steps = steps_of(engine) - before;
    ended = true;
    for (std::thread& other : others) other.join();
    EXPECT_LE(steps, 6U * kSteps);
}

INSTANTIATE_TEST_SUITE_P(Depth, StepLoopFairness, ::testing::Values(1, 2));

}  // namespace
}  // namespace nanolith::testing
