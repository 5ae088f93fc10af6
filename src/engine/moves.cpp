// Copies of pages between the device and the host, between steps.
#include <cassert>

#include "base/without_exceptions.h"
#include "engine/scheduler.h"

namespace nanolith {

Result<void> Scheduler::take_pages(PageList& list, int32_t count) {
    NL_TRY(make_room(count));
    list.grow(count);
    return {};
}

void Scheduler::start(std::shared_ptr<PageMove> move) {
    moves_.push_back(std::move(move));
    wake();
}

// Without the mutex.
Result<void> Scheduler::copy(const PageMove& move) {
    return without_exceptions([&]() -> Result<void> {
        const std::span<const int32_t> pages = move.pages;
        size_t bytes = 0;
        for (const auto& part : move.host) bytes += part.size();
        size_t done = 0;
        for (const auto& part : move.host) {
            const size_t page_bytes = bytes / pages.size();
            assert(page_bytes > 0);
            const size_t count = part.size() / page_bytes;
            NL_TRY(move.to_host ? executor_->read_pages(pages.subspan(done, count), part)
                                : executor_->write_pages(pages.subspan(done, count), part));
            done += count;
        }
        return {};
    });
}

// One of those that wait: the next step comes before the one after it.
void Scheduler::make_moves(Lock& lock) {
    if (moves_.empty()) return;
    const auto move = std::move(moves_.front());
    moves_.pop_front();
    finish_sending_down(lock);  // of the pages that the move writes to, perhaps
    auto chunk = move->of ? move->of->lock() : nullptr;
    if (move->of && chunk == nullptr) {
        move->outcome = Error{NL_ERROR_CANCELLED, "evicted"};
    } else {
        lock.unlock();
        move->outcome = copy(*move);
        lock.lock();
    }
    chunk.reset();
    move->done.release();
}

// Notes that the pages of a chunk that was evicted are to be copied to the host's memory. They may have other owners
// already when that is done, but nothing is written to them before. Where there is no room or no memory for it, the
// chunk is lost.
void Scheduler::send_down(const Chunk& chunk) noexcept {
    if (host_tier_ == nullptr) return;
    static_cast<void>(without_exceptions([&]() -> Result<void> {
        descents_.reserve(descents_.size() + 1);
        auto descent = std::make_unique<Descent>();
        descent->move.pages.assign(chunk.pages.pages().begin(), chunk.pages.pages().end());
        descent->move.to_host = true;
        descent->move.host.reserve(descent->move.pages.size());  // so that nothing fails once there is an entry
        descent->entry = host_tier_->add(chunk);
        if (descent->entry == nullptr) return {};
        host_tier_->find_memory(*descent->entry, descent->move.host);
        descents_.push_back(std::move(descent));
        return {};
    }));
}

void Scheduler::finish_sending_down(Lock& lock) {
    if (descents_.empty()) return;
    auto descents = std::move(descents_);
    descents_.clear();
    lock.unlock();
    for (const auto& descent : descents) descent->move.outcome = copy(descent->move);
    lock.lock();
    for (const auto& descent : descents) {
        if (descent->move.outcome.ok()) {
            store_.count(*descent->entry->identity, &StoreNumbers::host_moves);
            continue;
        }
        descent->entry->failed = true;
        host_tier_->remove(*descent->entry->identity);
    }
}

}  // namespace nanolith
