// Base64 (RFC 4648, section 4) in tokenizer files. Thread-safe: no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nanolith {

// The bytes that `text` stands for. Nothing where it is no canonical base64: whole groups of four with their padding,
// without white space, and with zeros in the bits that stand for nothing.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace nanolith
