// A path argument of the ABI.
#pragma once

#include <string>

#include "api/guard.h"

namespace nanolith::api {

inline Result<std::string> check_path(const char* path, size_t length) {
    constexpr size_t kLongest = 4096;
    NL_TRY(check_pointer(path, "path"));
    if (length == 0 || length > kLongest)
        return fail(NL_ERROR_INVALID_ARGUMENT, "path_length is ", length, ": expected 1 to ", kLongest);
    std::string text(path, length);
    if (text.find('\0') != std::string::npos)
        return fail(NL_ERROR_INVALID_ARGUMENT, "path holds a zero byte at ", text.find('\0'), ": expected none");
    return text;
}

}  // namespace nanolith::api
