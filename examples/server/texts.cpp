#include "texts.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "api_error.h"
#include "handles.h"

namespace server {
namespace {

constexpr size_t kMostThreads = 16;

class TextWorkers {
  public:
    TextWorkers(size_t count, const std::function<void(size_t)>& work, const std::function<bool()>& is_there)
        : count_(count), work_(work), is_there_(is_there) {
        again_.reserve(count);  // so that noting an index can't fail
    }

    bool run() {
        std::vector<std::thread> threads;
        threads.reserve(kMostThreads);
        try {
            while (threads.size() + 1 < std::min(count_, kMostThreads)) threads.emplace_back([this] { take_turns(); });
        } catch (const std::system_error&) {  // no more threads: fewer do
        }
        take_turns();
        for (std::thread& thread : threads) thread.join();
        if (error_) std::rethrow_exception(error_);
        for (const size_t index : again_) {
            if (gone_ || !is_there_()) return false;
            work_(index);
        }
        return !gone_;
    }

  private:
    void take_turns() {
        std::unique_lock lock(mutex_);
        while (next_ < count_ && !error_ && !gone_) {
            const size_t index = next_++;
            lock.unlock();
            const bool is_there = is_there_();
            std::exception_ptr error;
            bool no_pages = false;
            try {
                if (is_there) work_(index);
            } catch (const ApiError& refused) {
                no_pages = refused.code == nl_status_name(NL_ERROR_OUT_OF_PAGES);
                error = std::current_exception();
            } catch (...) {
                error = std::current_exception();
            }
            lock.lock();
            gone_ = gone_ || !is_there;
            if (no_pages) {
                again_.push_back(index);
            } else if (error) {
                error_ = error;
            }
        }
    }

    const size_t count_;
    const std::function<void(size_t)>& work_;
    const std::function<bool()>& is_there_;
    std::mutex mutex_;  // for all that follows
    size_t next_ = 0;
    std::vector<size_t> again_;
    std::exception_ptr error_;
    bool gone_ = false;
};

}  // namespace

bool work_on_texts(size_t count, const std::function<void(size_t)>& work, const std::function<bool()>& is_there) {
    return TextWorkers(count, work, is_there).run();
}

}  // namespace server
