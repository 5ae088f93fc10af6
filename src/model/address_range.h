// Addresses without memory behind them, which tell a WeightSource what is meant.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include "base/result.h"

namespace nanolith {

class AddressRange {
  public:
    AddressRange() = default;
    AddressRange(AddressRange&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    AddressRange& operator=(AddressRange&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~AddressRange() {
        if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }

    // OUT_OF_MEMORY. Nothing is reserved where `size` is 0.
    static Result<AddressRange> reserve(size_t size) {
        AddressRange range;
        if (size == 0) return range;
        void* const data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED)
            return fail(NL_ERROR_OUT_OF_MEMORY, "cannot reserve addresses for ", size,
                        " bytes of decoded weights: ", std::generic_category().message(errno));
        range.bytes_ = {static_cast<const std::byte*>(data), size};
        return range;
    }

    // Not to be read from.
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
    [[nodiscard]] const std::byte* data() const { return bytes_.data(); }

  private:
    std::span<const std::byte> bytes_;
};

}  // namespace nanolith
