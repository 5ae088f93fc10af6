// How byte-level vocabularies spell bytes: each as one printable character (Radford et al. 2019, GPT-2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nanolith {

// The character that stands for a byte.
char32_t byte_level_character(uint8_t byte);

// Appends the spelling of bytes.
void append_byte_level(std::string& spelled, std::string_view bytes);

// The bytes that a spelling stands for, or nothing where one of its characters stands for no byte. `spelling` is valid
// UTF-8.
std::optional<std::string> byte_level_bytes(std::string_view spelling);

}  // namespace nanolith
