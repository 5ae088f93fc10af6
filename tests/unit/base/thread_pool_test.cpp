// A pool of threads: every item once, on as many threads as it is worth, and none left behind.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

namespace nanolith {
namespace {

constexpr int64_t kMuch = 1'000'000'000;  // nanoseconds: worth all threads

std::ptrdiff_t threads_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

TEST(ThreadPoolTest, EveryItemIsDoneOnce) {
    for (const int32_t num_threads : {1, 2, 3, 8}) {
        const auto pool = ThreadPool::create(num_threads);
        ASSERT_EQ(pool->num_threads(), num_threads);
        for (int64_t count = 0; count < 300; ++count) {
            std::vector<int> done(count);
            std::atomic<bool> in_bounds = true;
            pool->run(count, kMuch, [&](int64_t i, int32_t thread) {
                ++done[i];
                if (thread < 0 || thread >= num_threads) in_bounds = false;
            });
            EXPECT_EQ(std::accumulate(done.begin(), done.end(), int64_t{0}), count);
            EXPECT_EQ(std::count(done.begin(), done.end(), 1), count);
            EXPECT_TRUE(in_bounds);
        }
    }
}

// Two items that wait for each other end only where two threads have them.
TEST(ThreadPoolTest, ThreadsWorkAtTheSameTime) {
    const auto pool = ThreadPool::create(2);
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> here = 0;
        pool->run(2, kMuch, [&](int64_t, int32_t) {
            ++here;
            while (here != 2) std::this_thread::yield();
        });
    }
}

TEST(ThreadPoolTest, LittleWorkStaysOnTheCallersThread) {
    const auto pool = ThreadPool::create(4);
    const auto caller = std::this_thread::get_id();
    bool others = false;
    pool->run(1000, 100,
              [&](int64_t, int32_t thread) { others = others || thread != 0 || std::this_thread::get_id() != caller; });
    EXPECT_FALSE(others);
}

// One of the callers has the pool's threads, the others do their own work.
TEST(ThreadPoolTest, CallersOnManyThreadsGetAllTheirItems) {
    const auto pool = ThreadPool::create(3);
    std::vector<std::thread> callers;
    std::atomic<int64_t> done = 0;
    for (int i = 0; i < 4; ++i) {
        callers.emplace_back([&] {
            for (int round = 0; round < 500; ++round) pool->run(10, kMuch, [&](int64_t, int32_t) { ++done; });
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(done, 4 * 500 * 10);
}

TEST(ThreadPoolTest, ItsThreadsEndWithIt) {
    const auto before = threads_of_this_process();
    {
        const auto pool = ThreadPool::create(5);
        EXPECT_EQ(threads_of_this_process(), before + 4);
    }
    EXPECT_EQ(threads_of_this_process(), before);
}

}  // namespace
}  // namespace nanolith
