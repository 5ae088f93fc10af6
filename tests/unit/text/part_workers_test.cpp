// Parts of a text on several threads: in order, each once, and with the first of several errors.
#include "text/part_workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

// Parts "0", "1" and so on, of which part i's token is i.
class Numbers final : public PartWork {
  public:
    explicit Numbers(int32_t count) : count_(count) {}

    bool next(EncodedPart& part) override {
        EXPECT_FALSE(inside_.exchange(true)) << "two threads at a time";
        EXPECT_TRUE(part.text.empty());
        part.text = std::to_string(next_) + std::string(padding, ' ');
        if (next_ % 5 == 4) part = {{}, next_, false, false};
        inside_ = false;
        return next_++ < count_;
    }
    Result<void> encode(const EncodedPart& part, Tokens& tokens) const override {
        const int32_t number = std::stoi(part.text);
        const int32_t now = ++under_way_;
        for (int32_t most = most_; now > most && !most_.compare_exchange_weak(most, now);) {
        }
        // The sooner a part comes, the longer it takes.
        std::this_thread::sleep_for(std::chrono::microseconds(number % 8 == 0 ? 300 : 0));
        --under_way_;
        if (number >= lacks_memory_from) throw std::bad_alloc();
        if (number >= throws_from) throw std::runtime_error("thrown at " + std::to_string(number));
        if (number >= fails_from) return fail(NL_ERROR_INVALID_ARGUMENT, "part ", number);
        tokens.push_back(number);
        return {};
    }
    Result<void> take(const EncodedPart& part, const Tokens& tokens) override {
        EXPECT_FALSE(inside_.exchange(true)) << "two threads at a time";
        if (part.token >= 0) taken.push_back(part.token);
        taken.insert(taken.end(), tokens.begin(), tokens.end());
        inside_ = false;
        return {};
    }
    [[nodiscard]] int32_t most_under_way() const { return most_; }

    size_t padding = 0;
    int32_t fails_from = INT32_MAX;
    int32_t throws_from = INT32_MAX;
    int32_t lacks_memory_from = INT32_MAX;
    Tokens taken;

  private:
    int32_t count_;
    int32_t next_ = 0;
    std::atomic<bool> inside_ = false;
    mutable std::atomic<int32_t> under_way_ = 0;
    mutable std::atomic<int32_t> most_ = 0;
};

Tokens numbers_up_to(int32_t count) {
    Tokens numbers;
    for (int32_t i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
}

TEST(PartWorkers, KeepTheOrder) {
    for (const int32_t threads : {1, 2, 3, 8}) {
        for (const int32_t count : {0, 1, 2, 500}) {
            SCOPED_TRACE(::testing::Message() << threads << " threads, " << count << " parts");
            Numbers work(count);
            const auto done = work_on_parts(work, threads);
            ASSERT_TRUE(done.ok()) << done.error().message;
            EXPECT_EQ(work.taken, numbers_up_to(count));
            EXPECT_LE(work.most_under_way(), threads);
        }
    }
}

TEST(PartWorkers, HaveFewBytesUnderWay) {
    Numbers work(100);
    work.padding = size_t{20} << 10U;
    ASSERT_TRUE(work_on_parts(work, 16).ok());
    EXPECT_EQ(work.taken, numbers_up_to(100));
    EXPECT_LE(work.most_under_way(), 4);  // the fourth part is begun while 60 KiB are under way, the fifth is not
}

TEST(PartWorkers, GiveTheFirstError) {
    for (const int32_t threads : {1, 2, 8}) {
        for (int32_t round = 0; round < 200; ++round) {  // threads must meet at the part that fails
            SCOPED_TRACE(threads);
            Numbers work(100);
            work.fails_from = 42;
            const auto done = work_on_parts(work, threads);
            ASSERT_FALSE(done.ok());
            ASSERT_EQ(done.error().message, "part 42");
            ASSERT_EQ(work.taken, numbers_up_to(42));
        }
    }
}

TEST(PartWorkers, MakeErrorsOfExceptions) {
    for (const int32_t threads : {1, 4}) {
        SCOPED_TRACE(threads);
        Numbers work(1000);
        work.throws_from = 40;
        const auto thrown = work_on_parts(work, threads);
        ASSERT_FALSE(thrown.ok());
        EXPECT_EQ(thrown.error().status, NL_ERROR_INTERNAL);
        EXPECT_EQ(thrown.error().message, "thrown at 40");
        Numbers hungry(1000);
        hungry.lacks_memory_from = 40;
        const auto without_memory = work_on_parts(hungry, threads);
        ASSERT_FALSE(without_memory.ok());
        EXPECT_EQ(without_memory.error().status, NL_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(hungry.taken, numbers_up_to(40));
    }
}

// An error in the last parts, when there are no more to come.
TEST(PartWorkers, LoseNoErrorAtTheEnd) {
    for (int32_t count = 1; count < 40; ++count) {
        Numbers work(count);
        work.fails_from = count - 1 - (count % 5 == 0 ? 1 : 0);  // every fifth part is a token, which can't fail
        const auto done = work_on_parts(work, 4);
        ASSERT_FALSE(done.ok()) << count;
    }
}

}  // namespace
}  // namespace nanolith
