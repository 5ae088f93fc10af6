// Exceptions of the standard library as Errors, on threads that must live on.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/result.h"

namespace nanolith {

// What `work` returns, a Result<void>, or what it throws as an error. "out of memory" needs none for its text, and
// takes the place of a text for which there is none.
template <typename Work>
Result<void> without_exceptions(const Work& work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
    } catch (const std::exception& exception) {
        try {
            return Error{NL_ERROR_INTERNAL, exception.what()};
        } catch (const std::bad_alloc&) {
            return Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
        }
    } catch (...) {
        return Error{NL_ERROR_INTERNAL, "something was thrown that is no std::exception"};
    }
}

}  // namespace nanolith
