// A pool of threads that share the items of a region: made with the pool, asleep between regions, joined when it goes.
// The thread that asks for a region works on it too, so a pool of one thread makes none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace nanolith {

// Estimates of what a region's items cost one thread, all together, in nanoseconds. They decide how many threads a
// region is worth, for which a factor of two does not matter.
constexpr int64_t cost_of_bytes(int64_t bytes) {
    return bytes / 8;  // read or written, 8 GB/s
}
constexpr int64_t cost_of_flops(int64_t flops) {
    return flops / 64;  // 64 Gflop/s
}

class ThreadPool {
  public:
    // Is told why the system made fewer threads than were asked for, in its words.
    using Warn = std::function<void(const std::string& reason)>;

    // `num_threads` threads, at least 1, with the one that calls run(). Where the system makes fewer, these, and
    // `warn` is called; one more than the pool takes could be made then, as the step loop's.
    static std::unique_ptr<ThreadPool> create(int32_t num_threads, const Warn& warn = {});
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] int32_t num_threads() const { return static_cast<int32_t>(workers_.size()) + 1; }

    // Calls body(i, thread) for every i in [0, count), thread in [0, num_threads()), and returns when all calls have.
    // `cost` is an estimate of what they cost one thread, all together, in nanoseconds: a region is shared with as many
    // threads as it is worth. The caller never waits for a thread that has not begun. body must not throw, and not run
    // a region itself. While another thread runs one, the caller does all of it alone, as thread 0.
    template <typename Body>
    void run(int64_t count, int64_t cost, const Body& body) {
        const auto call = [](const void* of, int64_t i, int32_t thread) { (*static_cast<const Body*>(of))(i, thread); };
        run_items({call, &body, count}, cost);
    }

  private:
    struct Region {
        void (*call)(const void* body, int64_t i, int32_t thread) = nullptr;
        const void* body = nullptr;
        int64_t count = 0;
        int64_t step = 1;  // items that a thread takes at a time
    };

    ThreadPool() = default;
    void end_workers_from(int32_t thread);
    void run_items(const Region& region, int64_t cost);
    void run_with_others(Region region, int32_t threads);
    void take_items(int32_t thread);
    void work(int32_t thread);
    bool join_region();
    void leave_region();
    [[nodiscard]] uint32_t await_region(uint32_t seen) const;

    // Goes up with each region that wants workers, and at the end: what they sleep on.
    alignas(64) std::atomic<uint32_t> epoch_ = 0;
    std::atomic<bool> busy_ = false;        // somebody runs a region
    std::atomic<int32_t> end_ = INT32_MAX;  // threads from here on are to end
    std::vector<std::thread> workers_;
    // The region's: kOpen while it has items left to take, seats for more workers, and the workers inside.
    alignas(64) std::atomic<uint32_t> seats_ = 0;
    Region region_;  // written while it is closed and nobody is inside
    alignas(64) std::atomic<int64_t> next_ = 0;
};

}  // namespace nanolith
