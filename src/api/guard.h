// What every function of the ABI does: no exception leaves, every failure becomes a status and a sentence.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace nanolith::api {

// Keeps message and details for nl_last_error and nl_last_error_detail on this thread and returns the status. Takes no
// memory.
nl_status report(nl_status status, const char* message, const ErrorDetails& details = {}) noexcept;
nl_status report(const Error& error) noexcept;

// While it lives, pthread_cancel of this thread waits: to unwind the library's frames would end the process.
class CancelGuard {
  public:
    CancelGuard() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~CancelGuard() { ::pthread_setcancelstate(before_, nullptr); }
    CancelGuard(const CancelGuard&) = delete;
    CancelGuard& operator=(const CancelGuard&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

// Runs `body` (which returns a Result<void>) and turns whatever happens into a status.
template <typename Body>
nl_status guarded(Body&& body) noexcept {
    const CancelGuard guard;
    try {
        const Result<void> result = body();
        return result.ok() ? NL_OK : report(result.error());
    } catch (const std::bad_alloc&) {
        return report(NL_ERROR_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& exception) {
        return report(NL_ERROR_INTERNAL, exception.what());
    } catch (...) {
        return report(NL_ERROR_INTERNAL, "something was thrown that is no std::exception");
    }
}

// Frees a handle, or nothing where it is NULL.
template <typename Handle>
void drop(Handle* handle) noexcept {
    const CancelGuard guard;
    delete handle;
}

inline Result<void> check_pointer(const void* pointer, const char* name) {
    if (pointer != nullptr) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is NULL: expected a pointer");
}

// An array argument: NULL only with a count of 0, and no longer than an address space could hold.
template <typename T>
Result<std::span<T>> check_array(T* data, size_t count, const char* name, const char* count_name) {
    if (data == nullptr && count > 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, name, " is NULL: expected ", count_name, " = ", count, " elements");
    if (count > static_cast<size_t>(PTRDIFF_MAX) / sizeof(T))
        return fail(NL_ERROR_INVALID_ARGUMENT, count_name, " is ", count, ": expected at most ",
                    static_cast<size_t>(PTRDIFF_MAX) / sizeof(T));
    return std::span<T>(data, count);
}

// Whether `needed` elements fit the caller's buffer; writes the needed size either way.
template <typename T>
Result<void> check_room(T* buffer, size_t capacity, size_t needed, size_t* size_out) {
    *size_out = needed;
    if (needed > capacity)
        return fail(NL_ERROR_BUFFER_TOO_SMALL, "capacity is ", capacity, ": expected at least ", needed)
            .with(NL_DETAIL_NEEDED, static_cast<int64_t>(needed))
            .with(NL_DETAIL_AVAILABLE, static_cast<int64_t>(capacity));
    if (needed > 0) NL_TRY(check_pointer(buffer, "buffer"));
    return {};
}

// Copies to the caller's buffer, or says that it is too small.
template <typename T>
Result<void> give(std::span<const T> values, T* buffer, size_t capacity, size_t* size_out) {
    NL_TRY(check_room(buffer, capacity, values.size(), size_out));
    std::copy(values.begin(), values.end(), buffer);
    return {};
}

inline Result<void> give_text(std::string_view text, char* buffer, size_t capacity, size_t* length) {
    return give<char>({text.data(), text.size()}, buffer, capacity, length);
}

}  // namespace nanolith::api
