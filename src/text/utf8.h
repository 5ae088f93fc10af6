// UTF-8 well-formedness, after table 3-7 of the Unicode Standard. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nanolith {

// U+FFFD, which stands for each maximal subpart of an ill-formed sequence (the standard's recommended practice).
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Kind : uint8_t {
    well_formed,  // one whole character
    ill_formed,   // a maximal subpart that no further byte can complete
    unfinished    // the text ends inside a character that could still be completed
};

struct Utf8Step {
    Utf8Kind kind = Utf8Kind::well_formed;
    size_t length = 0;  // bytes that it takes, at least 1
};

// The first character, or maximal subpart, of `text`, which must not be empty.
Utf8Step next_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);

// `text` with one U+FFFD in place of each maximal subpart of an ill-formed sequence.
std::string replace_invalid_utf8(std::string_view text);

// Moves what is finished at the front of `bytes` to the end of `text`, ill-formed parts as U+FFFD. What stays in
// `bytes` is empty or an unfinished character of at most 3 bytes.
void take_finished_utf8(std::string& bytes, std::string& text);

}  // namespace nanolith
