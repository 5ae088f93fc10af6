#include "text/byte_level.h"

#include <array>

#include "text/unicode.h"

namespace nanolith {
namespace {

constexpr bool is_printable(uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The others are numbered from U+0100 in their order.
constexpr std::array<char32_t, 256> kCharacters = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) characters[byte] = is_printable(byte) ? byte : next++;
    return characters;
}();
constexpr char32_t kNumCharacters = 0x100 + 68;

constexpr std::array<int16_t, kNumCharacters> kBytes = [] {
    std::array<int16_t, kNumCharacters> bytes{};
    for (int16_t& byte : bytes) byte = -1;
    for (int16_t byte = 0; byte < 256; ++byte) bytes[kCharacters[static_cast<size_t>(byte)]] = byte;
    return bytes;
}();

}  // namespace

char32_t byte_level_character(uint8_t byte) {
    return kCharacters[byte];
}

void append_byte_level(std::string& spelled, std::string_view bytes) {
    for (const char c : bytes) append_character(spelled, byte_level_character(static_cast<uint8_t>(c)));
}

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
    std::string bytes;
    while (!spelling.empty()) {
        size_t length = 0;
        const char32_t character = first_character(spelling, length);
        if (character >= kNumCharacters || kBytes[character] < 0) return std::nullopt;
        bytes += static_cast<char>(kBytes[character]);
        spelling.remove_prefix(length);
    }
    return bytes;
}

}  // namespace nanolith
