// Exceptions of the standard library as Errors, on threads that must live on.
#pragma once

#include <new>

#include "base/result.h"

namespace nanolith {

// What `work` returns, a Result<void>, or what it throws as an error. The texts need no memory, which may be what has
// run out.
template <typename Work>
Result<void> without_exceptions(const Work& work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
    } catch (...) {
        return Error{NL_ERROR_INTERNAL, "exception"};
    }
}

}  // namespace nanolith
