#include "runtime/memory.h"

#include "runtime/check.h"

namespace nanolith::cuda {

// An error has no one to go to here. Where the device is broken, the next call reports it.
void FreeDevice::operator()(std::byte* data) const noexcept {
    cudaFree(data);
}
void FreePinned::operator()(std::byte* data) const noexcept {
    cudaFreeHost(data);
}

Result<DeviceBuffer> allocate_device(size_t bytes, const char* what) {
    if (bytes == 0) return DeviceBuffer();
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status != cudaSuccess) return allocation_error(status, "cudaMalloc", what, bytes);
    return DeviceBuffer(static_cast<std::byte*>(data), bytes);
}

Result<PinnedBuffer> allocate_pinned(size_t bytes, const char* what) {
    if (bytes == 0) return PinnedBuffer();
    void* data = nullptr;
    const cudaError_t status = cudaMallocHost(&data, bytes);
    if (status != cudaSuccess) return allocation_error(status, "cudaMallocHost", what, bytes);
    return PinnedBuffer(static_cast<std::byte*>(data), bytes);
}

}  // namespace nanolith::cuda
