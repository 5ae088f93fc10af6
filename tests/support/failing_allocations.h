// Replaces operator new of a program, so that a test can let each allocation fail in turn, or do something meanwhile.
// Include it in one source file of the program.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

#include "nanolith/nanolith.h"

namespace {

std::atomic<int64_t> allocations_left = -1;  // -1: never fail

// Of the calling thread: how many allocations come before the one at which `meanwhile` is called; below 0: it is not.
thread_local int64_t allocations_before = -1;
thread_local const std::function<void()>* meanwhile = nullptr;

bool allocation_fails() {
    if (allocations_before >= 0 && allocations_before-- == 0) (*meanwhile)();
    int64_t left = allocations_left.load();
    while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {
    }
    return left == 0;
}

}  // namespace

// Not inlined, or the compiler would see malloc and delete as a mismatch.
#define NL_NOINLINE __attribute__((noinline))
NL_NOINLINE void* operator new(size_t size, const std::nothrow_t&) noexcept {
    return allocation_fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
NL_NOINLINE void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    const auto unit = static_cast<size_t>(alignment);
    return allocation_fails() ? nullptr : std::aligned_alloc(unit, (size / unit + 1) * unit);
}
NL_NOINLINE void* operator new(size_t size) {
    void* const memory = operator new(size, std::nothrow);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
NL_NOINLINE void* operator new(size_t size, std::align_val_t alignment) {
    void* const memory = operator new(size, alignment, std::nothrow);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
NL_NOINLINE void* operator new[](size_t size) {
    return operator new(size);
}
NL_NOINLINE void operator delete(void* memory) noexcept {
    std::free(memory);
}
NL_NOINLINE void operator delete[](void* memory) noexcept {
    std::free(memory);
}
NL_NOINLINE void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
NL_NOINLINE void operator delete[](void* memory, size_t) noexcept {
    std::free(memory);
}
NL_NOINLINE void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}

namespace nanolith::test {

// Calls until no allocation fails any more. The call is made once more after each failure's `check`.
template <typename Call, typename Check>
void fail_each_allocation(Call&& call, Check&& check) {
    for (int64_t allowed = 0; allowed < 10'000; ++allowed) {
        SCOPED_TRACE(allowed);
        allocations_left = allowed;
        const nl_status status = call();
        allocations_left = -1;
        if (status == NL_OK) {
            EXPECT_GT(allowed, 0) << "the call allocated nothing: this test shows nothing";
            return;
        }
        ASSERT_EQ(status, NL_ERROR_OUT_OF_MEMORY) << nl_last_error();
        ASSERT_STRNE(nl_last_error(), "");
        check();
        if (testing::Test::HasFatalFailure()) return;
    }
    FAIL() << "the call never succeeded";
}

}  // namespace nanolith::test
