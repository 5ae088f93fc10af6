// The pieces that stand for single bytes in vocabularies with byte fallback: <0x00> to <0xFF>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nanolith {

inline std::string byte_token_name(uint8_t byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return std::string("<0x") + kDigits[byte >> 4U] + kDigits[byte & 15U] + ">";
}

}  // namespace nanolith
