// Owners of device memory and of page-locked host memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace nanolith::cuda {

struct FreeDevice {
    void operator()(std::byte* data) const noexcept;
};
struct FreePinned {
    void operator()(std::byte* data) const noexcept;
};

// `bytes` bytes of memory that `Free` gives back; empty after default construction.
template <typename Free>
class Buffer {
  public:
    Buffer() = default;
    Buffer(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] size_t bytes() const { return bytes_; }
    template <typename T>
    [[nodiscard]] T* as() const {
        return reinterpret_cast<T*>(data_.get());
    }

  private:
    std::unique_ptr<std::byte, Free> data_;
    size_t bytes_ = 0;
};

using DeviceBuffer = Buffer<FreeDevice>;
using PinnedBuffer = Buffer<FreePinned>;

// Uninitialised memory on the current device, aligned to 256 bytes; 0 bytes give an empty buffer.
// `what` names its use in the error. Errors: OUT_OF_MEMORY, DEVICE.
Result<DeviceBuffer> allocate_device(size_t bytes, const char* what);
// Page-locked host memory, which asynchronous copies need.
Result<PinnedBuffer> allocate_pinned(size_t bytes, const char* what);

}  // namespace nanolith::cuda
