// Memory of the CPU backend: aligned to cache lines, left uninitialised (the system maps a page of it when it is
// first touched), freed with its owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <string_view>

#include "base/result.h"

namespace nanolith::cpu {

constexpr size_t kAlignment = 64;

// The product of the factors, or the largest uint64_t where it would overflow (so that the sum of sizes is refused
// as too large and never wraps). A negative factor counts as an overflow.
inline uint64_t saturating_product(std::initializer_list<int64_t> factors) {
    uint64_t product = 1;
    for (const int64_t factor : factors) {
        if (factor < 0 || __builtin_mul_overflow(product, static_cast<uint64_t>(factor), &product))
            return std::numeric_limits<uint64_t>::max();
    }
    return product;
}

template <typename T>
class Buffer {
  public:
    Buffer() = default;

    // `factors` multiply to the number of elements. `what` names the buffer in the error: OUT_OF_MEMORY.
    static Result<Buffer> allocate(std::string_view what, std::initializer_list<int64_t> factors) {
        const uint64_t count = saturating_product(factors);
        void* memory = nullptr;
        if (count <= static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max()) / sizeof(T))
            memory =
                ::operator new (std::max<size_t>(count, 1) * sizeof(T), std::align_val_t{kAlignment}, std::nothrow);
        if (memory == nullptr)
            return fail(NL_ERROR_OUT_OF_MEMORY, "could not allocate ", count, " elements of ", sizeof(T), " bytes for ",
                        what);
        Buffer buffer;
        buffer.data_.reset(static_cast<T*>(memory));
        buffer.size_ = static_cast<size_t>(count);
        return buffer;
    }

    [[nodiscard]] T* data() { return data_.get(); }
    [[nodiscard]] const T* data() const { return data_.get(); }
    [[nodiscard]] size_t size() const { return size_; }

  private:
    struct Free {
        void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
    };
    std::unique_ptr<T[], Free> data_;
    size_t size_ = 0;
};

}  // namespace nanolith::cpu
