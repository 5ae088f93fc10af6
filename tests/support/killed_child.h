// Processes that are killed at a random moment, for tests of what they leave behind.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

namespace nanolith::test {

// How many children a test kills: NANOLITH_KILLS, or `standard`.
inline int num_kills(int standard) {
    const char* const told = std::getenv("NANOLITH_KILLS");
    return told != nullptr ? std::max(1, std::atoi(told)) : standard;
}

// A child of this process that runs `work`, with no threads but its own: no engine may be alive here. `work` calls the
// function that it is given when the time begins in which the child may be killed.
class KilledChild {
  public:
    using Work = std::function<void(const std::function<void()>& begin)>;

    explicit KilledChild(const Work& work) {
        int ends[2];
        if (::pipe(ends) != 0) std::abort();
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::alarm(120);
            work([&] { static_cast<void>(::write(ends[1], "x", 1) == 1); });
            ::_exit(testing::Test::HasFailure() ? 1 : 0);
        }
        ::close(ends[1]);
        char byte = 0;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "the child ended before its time began";
        ::close(ends[0]);
        begun_ = Clock::now();
    }
    KilledChild(const KilledChild&) = delete;
    KilledChild& operator=(const KilledChild&) = delete;
    ~KilledChild() { wait(); }

    // How long it takes to its end.
    std::chrono::microseconds live() {
        const int status = wait();
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
        return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun_);
    }
    // Kills it at a moment of the next `most`, each as likely.
    void kill_within(std::chrono::microseconds most, std::mt19937& random) {
        std::uniform_int_distribution<int64_t> moments(0, most.count());
        std::this_thread::sleep_until(begun_ + std::chrono::microseconds(moments(random)));
        ::kill(process_, SIGKILL);
        wait();
    }

  private:
    using Clock = std::chrono::steady_clock;

    int wait() {
        int status = 0;
        if (process_ > 0) ::waitpid(process_, &status, 0);
        process_ = -1;
        return status;
    }

    pid_t process_ = -1;
    Clock::time_point begun_;
};

}  // namespace nanolith::test
