// A SHA-256 as the names and identities of things that are kept. Made by store/sha256.h.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace nanolith {

using Digest = std::array<std::byte, 32>;

// 64 hexadecimal digits.
inline std::string to_hex(const Digest& digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * digest.size());
    for (const std::byte byte : digest) {
        text += kDigits[std::to_integer<unsigned>(byte) / 16];
        text += kDigits[std::to_integer<unsigned>(byte) % 16];
    }
    return text;
}

}  // namespace nanolith
