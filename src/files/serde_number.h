// Decimal numbers as Rust's serde_json reads them, with which the tokenizers package reads tokenizer.json: not always
// to the nearest double. Sums of a Unigram model's scores that tie depend on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

// The number `text`, which is well-formed JSON. Infinite where serde_json reports it as out of range.
double serde_number(std::string_view text);

// As parse_json_object, but numbers that are no integers are read so.
Result<Json> parse_json_like_serde(std::string_view text, const std::string& where, size_t max_bytes);

}  // namespace nanolith
