// Writing to a connection that the server has closed, without the signal that would end the process.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace nanolith::redis {

// While it lives, the calling thread gets no SIGPIPE; one that came meanwhile is dropped, one that was pending before
// stays.
class NoSigpipe {
  public:
    NoSigpipe() {
        sigset_t pending{};
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        sigset_t pipe{};
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, &before_);
    }
    NoSigpipe(const NoSigpipe&) = delete;
    NoSigpipe& operator=(const NoSigpipe&) = delete;
    ~NoSigpipe() {
        if (!was_pending_) {
            sigset_t pipe{};
            sigemptyset(&pipe);
            sigaddset(&pipe, SIGPIPE);
            const timespec at_once{};
            while (sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    sigset_t before_{};
    bool was_pending_ = false;
};

}  // namespace nanolith::redis
