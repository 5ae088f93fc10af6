#include "engine/saver.h"

#include "base/without_exceptions.h"

namespace nanolith {

Saver::Saver(std::mutex& mutex, std::function<void(const std::weak_ptr<Chunk>&)> save)
    : mutex_(mutex), save_(std::move(save)), thread_([this] { loop(); }) {}

Saver::~Saver() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        work_.notify_one();
    }
    thread_.join();
}

void Saver::add(const std::shared_ptr<Chunk>& chunk) noexcept {
    static_cast<void>(without_exceptions([&]() -> Result<void> {
        waiting_.push_back(chunk);
        return {};
    }));
    work_.notify_one();
}

void Saver::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const std::weak_ptr<Chunk> chunk = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        save_(chunk);
        lock.lock();
    }
}

}  // namespace nanolith
