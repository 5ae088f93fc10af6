#include "model/packed/passing_bytes.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace nanolith {
namespace {

constexpr size_t kPart = size_t{1} << 20;  // bytes that a thread reads at a time

}  // namespace

PassingBytes::Copy PassingBytes::take(int64_t uses) noexcept {
    std::unique_lock lock(mutex_);
    if (copy_ == nullptr) {
        try {
            auto copy = std::make_shared<Filled>();
            copy->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes_.size());
            copy_ = std::move(copy);
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    const std::shared_ptr<Filled> taken = copy_;  // others may let go of it meanwhile
    fill(*taken, lock);
    used_ += uses;
    if (used_ >= uses_) {
        used_ = 0;
        copy_.reset();
    }
    return {taken, taken->bytes.get()};
}

void PassingBytes::fill(Filled& copy, std::unique_lock<std::mutex>& lock) noexcept {
    while (copy.begun < bytes_.size()) {
        const size_t first = copy.begun;
        const size_t size = std::min(kPart, bytes_.size() - first);
        copy.begun += size;
        lock.unlock();
        read(static_cast<int64_t>(first), size, copy.bytes.get() + first);
        lock.lock();
        copy.read += size;
        if (copy.read == bytes_.size()) filled_.notify_all();
    }
    filled_.wait(lock, [&] { return copy.read == bytes_.size(); });
}

void PassingBytes::read(int64_t first, size_t size, void* to) const noexcept {
    if (source_ != nullptr) return source_->read(bytes_.data() + first, size, to);
    std::memcpy(to, bytes_.data() + first, size);
}

}  // namespace nanolith
