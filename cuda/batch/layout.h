// Arrays one after the other in one block of memory, so that one copy sends all of them to the device.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace nanolith::cuda {

// Gives each array its offset in the block, in bytes.
class Layout {
  public:
    // The offset of an array of `count` elements, a multiple of 16.
    template <typename T>
    size_t reserve(size_t count) {
        const size_t at = used_;
        used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    // The bytes of all arrays so far.
    [[nodiscard]] size_t used() const { return used_; }

  private:
    static constexpr size_t kAlignment = 16;
    size_t used_ = 0;
};

// Copies `from` to `to`, and adds elements T() where it has fewer than `count`.
template <typename T>
void put(std::byte* to, std::span<const T> from, size_t count) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
    const T nothing{};
    for (size_t i = from.size(); i < count; ++i) std::memcpy(to + i * sizeof(T), &nothing, sizeof(T));
}

}  // namespace nanolith::cuda
