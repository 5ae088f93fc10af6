#include "text/base64.h"

#include <array>
#include <cstdint>

namespace nanolith {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 0xFF;

constexpr std::array<uint8_t, 256> kValues = [] {
    std::array<uint8_t, 256> values{};
    for (uint8_t& value : values) value = kNone;
    for (size_t i = 0; i < kAlphabet.size(); ++i) values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
    return values;
}();

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : text) {
        const uint8_t value = kValues[static_cast<uint8_t>(c)];
        if (value == kNone) return std::nullopt;
        bits = bits << 6U | value;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>(bits >> count & 0xFFU);
    }
    if ((bits & ((1U << count) - 1)) != 0) return std::nullopt;
    return bytes;
}

}  // namespace nanolith
