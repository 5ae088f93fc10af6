#include "model/packed/passing_bytes.h"

#include <cstring>
#include <new>

namespace nanolith {

PassingBytes::Copy PassingBytes::take(int64_t uses) noexcept {
    const std::lock_guard lock(mutex_);
    if (copy_ == nullptr) {
        try {
            const std::shared_ptr<std::byte[]> copy = std::make_shared_for_overwrite<std::byte[]>(bytes_.size());
            read(0, bytes_.size(), copy.get());
            copy_ = copy;
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    Copy taken = copy_;
    used_ += uses;
    if (used_ >= uses_) {
        used_ = 0;
        copy_.reset();
    }
    return taken;
}

void PassingBytes::read(int64_t first, size_t size, void* to) const noexcept {
    if (source_ != nullptr) return source_->read(bytes_.data() + first, size, to);
    std::memcpy(to, bytes_.data() + first, size);
}

}  // namespace nanolith
