// Arrays one after the other in one block of memory, which one copy brings to the device.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace nanolith::cuda {

// Hands out the places.
class Layout {
  public:
    template <typename T>
    size_t reserve(size_t count) {
        const size_t at = used_;
        used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    [[nodiscard]] size_t used() const { return used_; }

  private:
    static constexpr size_t kAlignment = 16;
    size_t used_ = 0;
};

// Copies `from` and fills up to `count` elements with T().
template <typename T>
void put(std::byte* to, std::span<const T> from, size_t count) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
    const T nothing{};
    for (size_t i = from.size(); i < count; ++i) std::memcpy(to + i * sizeof(T), &nothing, sizeof(T));
}

}  // namespace nanolith::cuda
