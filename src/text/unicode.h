// Unicode's normalisation forms and character properties, through utf8proc. Texts are valid UTF-8. Thread-safe: no
// state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nanolith {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

// The text in a normalisation form (Unicode Standard Annex 15) as Unicode 9 has it, and with it the tokenizers package,
// whatever the system's version: newer characters stay as they are. In time that grows with its length (n log n for a
// run of n combining marks).
std::string normalize_unicode(std::string_view text, NormalForm form);

// Every character's full lower case by itself, without regard to its neighbours.
std::string lower_case(std::string_view text);

// The character at the front of `text`, which must not be empty, and how many bytes it takes: never more than there
// are. In text that is not UTF-8 it is any character.
char32_t first_character(std::string_view text, size_t& length);
void append_character(std::string& text, char32_t character);

// How many characters `text` has.
int64_t count_characters(std::string_view text);

// White_Space of the Unicode Character Database.
bool is_white_space(char32_t character);
// A letter, mark, decimal digit, letter number or connector, or a joiner: what \w is (Unicode Technical Standard 18).
bool is_word_character(char32_t character);

// Bytes of white space at the front of `text`, and at its back.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);

}  // namespace nanolith
