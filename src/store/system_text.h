// The system's words for an error number.
#pragma once

#include <string>
#include <system_error>

namespace nanolith {

inline std::string system_text(int code) {
    return std::generic_category().message(code);
}

}  // namespace nanolith
