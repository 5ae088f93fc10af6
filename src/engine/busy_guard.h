#pragma once

#include <algorithm>

#include "engine/engine.h"

namespace nanolith {

class Engine::BusyGuard {
  public:
    BusyGuard(Engine& engine, Lock& lock, std::span<Cache* const> caches)
        : engine_(engine), lock_(lock), caches_(caches) {
        // All at once, so that two calls with common caches can't each hold what the other waits for.
        engine_.changed_.wait(lock, [&] {
            return std::ranges::none_of(caches_, [](const Cache* cache) { return cache->context->busy; });
        });
        for (Cache* cache : caches_) cache->context->busy = true;
    }
    ~BusyGuard() {
        for (Cache* cache : caches_) cache->context->busy = false;
        engine_.changed_.notify_all();
    }
    BusyGuard(const BusyGuard&) = delete;
    BusyGuard& operator=(const BusyGuard&) = delete;

    // Computes without the mutex, and holds it again whatever happens.
    Result<void> run(std::span<Job> jobs) {
        struct Relock {
            Lock& lock;
            explicit Relock(Lock& held) : lock(held) { lock.unlock(); }
            ~Relock() { lock.lock(); }
        } relock(lock_);
        return engine_.scheduler_->run(jobs);
    }

  private:
    Engine& engine_;
    Lock& lock_;
    std::span<Cache* const> caches_;
};

}  // namespace nanolith
