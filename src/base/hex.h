// Numbers as messages show flags.
#pragma once

#include <cstdint>
#include <string>

namespace nanolith {

// "0x1f"
inline std::string hex(uint32_t number) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    do {
        text.insert(text.begin(), kDigits[number % 16]);
        number /= 16;
    } while (number > 0);
    return "0x" + text;
}

}  // namespace nanolith
