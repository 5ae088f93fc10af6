// The bytes of a tensor that is read in another order than it is stored in.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "model/safetensors.h"

namespace nanolith {

// Copies the whole tensor into memory when somebody first needs it, and lets go of the copy when all of it has been
// needed once: so a model that is loaded takes the memory of the few tensors that are being read. Thread-safe.
class PassingBytes {
  public:
    using Copy = std::shared_ptr<const std::byte[]>;

    // `uses`: how many uses need all of the tensor once. What one use is, a weight say, is the caller's choice.
    PassingBytes(const Tensor& tensor, int64_t uses) : bytes_(tensor.bytes), source_(tensor.source), uses_(uses) {}

    // A copy of the tensor; null where there is no memory for one. `uses`: how many of them the caller is going to make
    // of this copy; with 0 it stays for later calls. Threads that need a copy which is not complete yet share the
    // reading.
    [[nodiscard]] Copy take(int64_t uses) noexcept;
    // Bytes [first, first + size), read for this call alone.
    void read(int64_t first, size_t size, void* to) const noexcept;

  private:
    struct Filled {
        std::unique_ptr<std::byte[]> bytes;
        size_t begun = 0;  // bytes that are read or being read
        size_t read = 0;   // bytes that are read
    };

    // Reads parts that nobody reads yet, then waits until all of them are read.
    void fill(Filled& copy, std::unique_lock<std::mutex>& lock) noexcept;

    const std::span<const std::byte> bytes_;
    WeightSource* const source_;
    const int64_t uses_;
    std::mutex mutex_;
    std::condition_variable filled_;
    std::shared_ptr<Filled> copy_;
    int64_t used_ = 0;
};

}  // namespace nanolith
