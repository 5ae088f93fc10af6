// Exceptions of the standard library as Errors, on threads that must live on.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/result.h"

namespace nanolith {

// Its own words; the short text where they take memory that there is none of.
inline Error error_of(const std::exception& exception) noexcept {
    try {
        return Error{NL_ERROR_INTERNAL, std::string("an exception: ") + exception.what()};
    } catch (...) {
        return Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
    }
}

// What `work` returns, a Result<void>, or what it throws as an error. The texts need no memory, which may be what has
// run out.
template <typename Work>
Result<void> without_exceptions(const Work& work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
    } catch (const std::exception& exception) {
        return error_of(exception);
    } catch (...) {
        return Error{NL_ERROR_INTERNAL, "odd exception"};
    }
}

}  // namespace nanolith
