// Sets of Unicode characters that normalizers ask for. They are the tables that the tokenizers package brings with it
// (made from Unicode 8 and 9), so that tokens do not depend on the Unicode version of the system's libraries.
// Thread-safe: no state.
#pragma once

namespace nanolith {

// What BertNormalizer's clean_text takes away: control, format and private characters but for tab and line ends, and
// U+FFFD.
bool is_removed_by_bert(char32_t character);
// Of general category Mn: BertNormalizer's accents.
bool is_nonspacing_mark(char32_t character);
// Of general category M: StripAccents' accents.
bool is_mark(char32_t character);

// What Unicode 9's normal forms change, put in another order or put together, and some that no version's do. Newer
// characters stay as they are.
bool has_normal_forms(char32_t character);

}  // namespace nanolith
