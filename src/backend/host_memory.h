// Memory of the host that a device copies from and to.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace nanolith {

// Owns a block of bytes that an executor gave (Executor::allocate_host), and must be gone before that executor is.
// Empty when default-constructed.
class HostMemory {
  public:
    HostMemory() = default;
    HostMemory(std::byte* data, size_t bytes, std::function<void(std::byte*)> free)
        : data_(data, std::move(free)), bytes_(bytes) {}

    [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), data_ ? bytes_ : 0}; }

  private:
    std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_{nullptr, [](std::byte*) {}};
    size_t bytes_ = 0;
};

}  // namespace nanolith
