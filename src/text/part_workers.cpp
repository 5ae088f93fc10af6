#include "text/part_workers.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/without_exceptions.h"

namespace nanolith {
namespace {

// No further part is begun while those under way have as much text as this: what encodes them takes a multiple of it.
// A part is under way until all before it are taken, so that tokens that wait stay few too.
constexpr size_t kMaxBytesUnderWay = size_t{64} << 10U;
// What a part counts at least: a token takes memory while it waits.
constexpr size_t kLeastBytes = 64;

class Crew {
  public:
    explicit Crew(PartWork& work) : work_(&work) {}

    Result<void> run(int32_t num_threads) {
        {
            std::vector<std::jthread> others;  // end before anything else here
            hire(num_threads - 1, others);
            work();
        }
        return std::move(result_);
    }

  private:
    struct Part {
        EncodedPart part;
        std::vector<int32_t> tokens;
        Result<void> result;
        bool done = false;

        [[nodiscard]] size_t bytes() const { return std::max(part.text.size(), kLeastBytes); }
    };

    void hire(int32_t count, std::vector<std::jthread>& others) {
        try {
            others.reserve(static_cast<size_t>(std::max(count, 0)));
            for (int32_t i = 0; i < count; ++i) others.emplace_back([this] { work(); });
        } catch (const std::exception&) {  // there is no memory or no thread for more: these do it
        }
    }

    // What each thread does. An error stops all threads while the mutex is still held, so that no other thread can take
    // the part that failed again.
    void work() noexcept {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return ended_ || bytes_ < kMaxBytesUnderWay; });
            if (ended_) return;
            auto done = without_exceptions([&] { return work_on_next(lock); });
            if (!done.ok()) stop(std::move(done));
            changed_.notify_all();
        }
    }

    // Encodes the next part of the text, if there is one, and takes what can be taken. `lock` is held when this is
    // called and when it returns, but not while the part is encoded.
    Result<void> work_on_next(std::unique_lock<std::mutex>& lock) {
        EncodedPart next;
        if (!work_->next(next)) {
            ended_ = true;
            return {};
        }
        Part& part = parts_.emplace_back();  // stays in its place whatever is put behind it or taken before it
        part.part = std::move(next);
        bytes_ += part.bytes();
        lock.unlock();
        if (!part.part.text.empty())
            part.result = without_exceptions([&] { return work_->encode(part.part, part.tokens); });
        lock.lock();
        part.done = true;
        return take_parts();
    }

    // Takes the parts that are done and have none before them that is not. Locked.
    Result<void> take_parts() {
        for (; !failed_ && !parts_.empty() && parts_.front().done; parts_.pop_front()) {
            Part& part = parts_.front();
            if (!part.result.ok()) return std::move(part.result);
            NL_TRY(work_->take(part.part, part.tokens));
            bytes_ -= part.bytes();
        }
        return {};
    }

    // Keeps the first error. Locked.
    void stop(Result<void> error) noexcept {
        if (!std::exchange(failed_, true)) result_ = std::move(error);
        ended_ = true;
    }

    PartWork* work_;
    std::mutex mutex_;  // guards what follows, and work_ but for its encode()
    std::condition_variable changed_;
    std::deque<Part> parts_;  // under way, in the text's order
    size_t bytes_ = 0;        // of parts_
    bool ended_ = false;      // there are no more parts, or they are of no use any more
    bool failed_ = false;
    Result<void> result_;
};

}  // namespace

Result<void> work_on_parts(PartWork& work, int32_t num_threads) {
    return Crew(work).run(num_threads);
}

}  // namespace nanolith
