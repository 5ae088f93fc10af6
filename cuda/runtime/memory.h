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

// Owns a block of bytes, which `Free` frees. Empty when default-constructed.
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

// Uninitialised memory on the current device, aligned to 256 bytes; 0 bytes give an empty buffer. `what` says in an
// error what the memory was for. Errors: NL_ERROR_OUT_OF_MEMORY, NL_ERROR_DEVICE.
Result<DeviceBuffer> allocate_device(size_t bytes, const char* what);
// The same of page-locked host memory, which asynchronous copies need and kernels can read and write.
Result<PinnedBuffer> allocate_pinned(size_t bytes, const char* what);

}  // namespace nanolith::cuda
