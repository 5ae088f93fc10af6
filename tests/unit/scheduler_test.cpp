#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace nanolith {
namespace {

// Records batches and draws the last row's token plus one; it can be told to fail.
class FakeExecutor : public Executor {
  public:
    struct Record {
        std::mutex mutex;
        std::vector<size_t> rows;
        std::vector<size_t> sequences;
        std::vector<PageCopy> copies;
        std::atomic<bool> fail = false;
        std::atomic<bool> out_of_memory = false;
    };
    explicit FakeExecutor(Record& record) : record_(record) {}

    [[nodiscard]] int32_t max_in_flight() const override { return 1; }
    Result<void> submit(const Batch& batch) override {
        {
            const std::lock_guard lock(record_.mutex);
            record_.rows.push_back(batch.tokens.size());
            record_.sequences.push_back(batch.sequences.size());
        }
        if (record_.out_of_memory) throw std::bad_alloc();
        if (record_.fail) return nanolith::fail(NL_ERROR_DEVICE, "the fake device failed");
        drawn_.clear();
        for (const int32_t row : batch.output_rows) drawn_.push_back(batch.tokens[static_cast<size_t>(row)] + 1);
        return {};
    }
    Result<void> collect(std::span<int32_t> sampled) override {
        std::ranges::copy(drawn_, sampled.begin());
        return {};
    }
    Result<void> read_logits(int32_t index, std::span<float> logits) override {
        std::ranges::fill(logits, static_cast<float>(index));
        return {};
    }
    Result<void> copy_pages(std::span<const PageCopy> copies) override {
        const std::lock_guard lock(record_.mutex);
        record_.copies.insert(record_.copies.end(), copies.begin(), copies.end());
        return {};
    }

  private:
    Record& record_;
    std::vector<int32_t> drawn_;
};

class SchedulerTest : public testing::Test {
  protected:
    static Job job(int32_t rows) {
        Job job;
        job.own.pages.assign(64, 0);
        job.tokens.assign(static_cast<size_t>(rows), 10);
        job.wants_token = true;
        return job;
    }

    FakeExecutor::Record record;
    Scheduler scheduler{std::make_unique<FakeExecutor>(record), 16, 8};
};

TEST_F(SchedulerTest, RunsSeveralJobsInOneStep) {
    std::vector<Job> jobs = {job(1), job(1), job(3)};
    ASSERT_TRUE(scheduler.run(jobs).ok());
    EXPECT_EQ(record.rows, (std::vector<size_t>{5}));
    for (const Job& done : jobs) EXPECT_EQ(done.token, 11);
}

TEST_F(SchedulerTest, ADecodeRowGoesBeforeALongPrefillsSlices) {
    std::vector<Job> jobs = {job(30), job(1)};
    ASSERT_TRUE(scheduler.run(jobs).ok());
    EXPECT_EQ(record.sequences, (std::vector<size_t>{2, 1, 1, 1}));
    EXPECT_EQ(record.rows, (std::vector<size_t>{8, 8, 8, 7}));
    EXPECT_EQ(jobs[0].token, 11);
    EXPECT_EQ(jobs[1].token, 11);
}

TEST_F(SchedulerTest, CallsFromManyThreadsAllReturn) {
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 50; ++round) {
                Job mine = job(1 + (i + round) % 20);
                mine.tokens.back() = 100 * i + round;
                if (scheduler.run({&mine, 1}).ok() && mine.token == 100 * i + round + 1) ++right;
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 400);
}

TEST_F(SchedulerTest, AFailureReachesTheCallerAndTheNextCallWorks) {
    record.fail = true;
    Job bad = job(20);
    const auto outcome = scheduler.run({&bad, 1});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().status, NL_ERROR_DEVICE);
    EXPECT_EQ(outcome.error().message, "the fake device failed");
    record.fail = false;
    Job good = job(20);
    EXPECT_TRUE(scheduler.run({&good, 1}).ok());
    EXPECT_EQ(good.token, 11);
}

TEST_F(SchedulerTest, ExhaustedHostMemoryIsAnErrorAndNotTheEnd) {
    record.out_of_memory = true;
    Job bad = job(1);
    const auto outcome = scheduler.run({&bad, 1});
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().status, NL_ERROR_OUT_OF_MEMORY);
    record.out_of_memory = false;
    Job good = job(1);
    EXPECT_TRUE(scheduler.run({&good, 1}).ok());
}

TEST_F(SchedulerTest, CopiesAPageOnceBeforeTheFirstRow) {
    Job copied = job(20);
    copied.copy = PageCopy{3, 5};
    ASSERT_TRUE(scheduler.run({&copied, 1}).ok());
    ASSERT_EQ(record.copies.size(), 1U);
    EXPECT_EQ(record.copies[0].from, 3);
    EXPECT_EQ(record.copies[0].to, 5);
}

TEST_F(SchedulerTest, GivesLogitsOfTheLastRow) {
    Job wanted = job(1);
    std::vector<float> logits(4, -1.0F);
    wanted.logits = logits;
    ASSERT_TRUE(scheduler.run({&wanted, 1}).ok());
    EXPECT_EQ(logits, std::vector<float>(4, 0.0F));
}

}  // namespace
}  // namespace nanolith
