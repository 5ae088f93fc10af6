#include "threads.h"

#include <system_error>

namespace server {

void ConnectionThreads::enqueue(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    open_->fetch_add(1);
    jobs_.push_back(std::move(job));
    if (jobs_.size() > idle_ && threads_.size() < most_) {
        try {
            threads_.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
            if (threads_.empty()) throw;  // else the job waits for one of those that there are
        }
    }
    wake_.notify_one();
}

void ConnectionThreads::shutdown() {
    {
        const std::lock_guard lock(mutex_);
        stops_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void ConnectionThreads::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wake_.wait(lock, [this] { return stops_ || !jobs_.empty(); });
        --idle_;
        if (jobs_.empty()) return;
        const std::function<void()> job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job();
        open_->fetch_sub(1);
        lock.lock();
    }
}

}  // namespace server
