#include "base/thread_pool.h"

#include <algorithm>
#include <system_error>

namespace nanolith {
namespace {

// One more thread is used for each this many nanoseconds of work: waking a sleeping thread costs the waker some
// microseconds, and the thread starts tens of microseconds later.
constexpr int64_t kCostPerThread = 10'000;
// Times that a worker looks for the next region before it sleeps, and the caller for the last worker's end: some
// microseconds. The regions of a layer follow each other more closely than that.
constexpr int kLooks = 1000;
// A region is divided into this many shares for each thread, so that others do the items of one that starts late or is
// interrupted.
constexpr int64_t kSharesPerThread = 16;

constexpr uint32_t kOpen = 1U << 31U;
constexpr uint32_t kOneSeat = 1U << 15U;
constexpr uint32_t kInside = kOneSeat - 1;        // bits that count the workers inside
constexpr uint32_t kSeats = kOpen - 1 - kInside;  // bits that count the free seats

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

std::unique_ptr<ThreadPool> ThreadPool::create(int32_t num_threads, const Warn& warn) {
    std::unique_ptr<ThreadPool> pool(new ThreadPool());
    if (num_threads <= 1) return pool;
    pool->workers_.reserve(static_cast<size_t>(num_threads) - 1);
    try {
        for (int32_t thread = 1; thread < num_threads; ++thread)
            pool->workers_.emplace_back([to = pool.get(), thread] { to->work(thread); });
        std::thread([] {}).join();  // so one more can be had
    } catch (const std::system_error& error) {
        pool->end_workers_from(std::max(pool->num_threads() - 1, 1));
        if (warn) warn(error.what());
    }
    return pool;
}

ThreadPool::~ThreadPool() {
    end_workers_from(1);
}

void ThreadPool::end_workers_from(int32_t thread) {
    end_ = thread;
    ++epoch_;
    epoch_.notify_all();
    while (num_threads() > thread) {
        workers_.back().join();
        workers_.pop_back();
    }
}

void ThreadPool::run_items(const Region& region, int64_t cost) {
    const int64_t worth = std::min(region.count, 1 + cost / kCostPerThread);
    const auto threads = static_cast<int32_t>(std::min<int64_t>(num_threads(), worth));
    if (threads > 1 && !busy_.exchange(true, std::memory_order_acquire)) {
        run_with_others(region, threads);
        busy_.store(false, std::memory_order_release);
        return;
    }
    for (int64_t i = 0; i < region.count; ++i) region.call(region.body, i, 0);
}

void ThreadPool::run_with_others(Region region, int32_t threads) {
    region.step = std::max<int64_t>(1, region.count / (threads * kSharesPerThread));
    region_ = region;
    next_.store(0, std::memory_order_relaxed);
    const auto others = static_cast<uint32_t>(threads - 1);
    seats_.store(kOpen + others * kOneSeat, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
    if (threads == num_threads()) {
        epoch_.notify_all();
    } else {
        for (uint32_t i = 0; i < others; ++i) epoch_.notify_one();
    }
    take_items(0);
    uint32_t inside = seats_.fetch_and(kInside, std::memory_order_acquire) & kInside;
    for (int look = 0; inside != 0 && look < kLooks; ++look) {
        pause();
        inside = seats_.load(std::memory_order_acquire);
    }
    while (inside != 0) {
        seats_.wait(inside, std::memory_order_acquire);
        inside = seats_.load(std::memory_order_acquire);
    }
}

void ThreadPool::take_items(int32_t thread) {
    const Region region = region_;
    while (true) {
        const int64_t first = next_.fetch_add(region.step, std::memory_order_relaxed);
        if (first >= region.count) return;
        const int64_t end = std::min(first + region.step, region.count);
        for (int64_t i = first; i < end; ++i) region.call(region.body, i, thread);
    }
}

// ---- A worker's thread --------------------------------------------------------------------------------------

void ThreadPool::work(int32_t thread) {
    uint32_t seen = 0;
    while (true) {
        seen = await_region(seen);
        if (thread >= end_) return;
        if (!join_region()) continue;
        take_items(thread);
        leave_region();
    }
}

// Until the epoch is another than `seen`, and gives it.
uint32_t ThreadPool::await_region(uint32_t seen) const {
    for (int look = 0; look < kLooks; ++look) {
        const uint32_t epoch = epoch_.load(std::memory_order_acquire);
        if (epoch != seen) return epoch;
        pause();
    }
    epoch_.wait(seen, std::memory_order_acquire);
    return epoch_.load(std::memory_order_acquire);
}

// Takes a seat; false where the region has ended, or has none left.
bool ThreadPool::join_region() {
    uint32_t seats = seats_.load(std::memory_order_relaxed);
    while ((seats & kOpen) != 0 && (seats & kSeats) != 0) {
        if (seats_.compare_exchange_weak(seats, seats - kOneSeat + 1, std::memory_order_acquire)) return true;
    }
    return false;
}

void ThreadPool::leave_region() {
    // Only the caller waits, and only once the region is closed.
    if (seats_.fetch_sub(1, std::memory_order_acq_rel) == 1) seats_.notify_one();
}

}  // namespace nanolith
