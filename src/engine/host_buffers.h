// Memory of the host through which pages go between files and the device, kept for the next use.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/host_memory.h"
#include "base/result.h"

namespace nanolith {

class Scheduler;

// Thread-safe. To be destroyed before the executor.
class HostBuffers {
  public:
    // Each of `bytes` bytes.
    HostBuffers(Scheduler& scheduler, size_t bytes) : scheduler_(scheduler), bytes_(bytes) {}

    // A buffer, given back when the object goes.
    class Lease {
      public:
        Lease(HostBuffers& buffers, HostMemory memory) : buffers_(&buffers), memory_(std::move(memory)) {}
        Lease(Lease&&) = default;
        Lease& operator=(Lease&&) = delete;
        ~Lease() {
            if (!memory_.bytes().empty()) buffers_->give_back(std::move(memory_));
        }
        [[nodiscard]] std::span<std::byte> bytes() const { return memory_.bytes(); }

      private:
        HostBuffers* buffers_;
        HostMemory memory_;
    };
    Result<Lease> take();
    [[nodiscard]] size_t buffer_bytes() const { return bytes_; }

  private:
    void give_back(HostMemory memory) noexcept;

    static constexpr size_t kMostKept = 4;
    Scheduler& scheduler_;
    const size_t bytes_;
    std::mutex mutex_;
    std::vector<HostMemory> free_;
};

}  // namespace nanolith
