// Sets of Unicode characters, and how a text spells them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/automaton.h"

namespace nanolith::grammar {

constexpr uint32_t kLastCharacter = 0x10FFFF;

// Ranges of code points, in any order; first and last belong to them.
using CharacterSet = std::vector<std::pair<uint32_t, uint32_t>>;

// The same characters as sorted ranges without overlaps.
CharacterSet normalised(CharacterSet set);
CharacterSet complement(const CharacterSet& set);
// The characters of `set` that are not in `removed`.
CharacterSet without(const CharacterSet& set, const CharacterSet& removed);

enum class Spelling : uint8_t {
    plain,        // UTF-8
    json_string,  // as inside of a JSON string: quotes, backslashes and control characters in one escaped form each
};

// One character of the set.
Fragment add_characters(Nfa& nfa, const CharacterSet& set, Spelling spelling);
// A text, character by character; ill-formed UTF-8 is taken byte by byte.
Fragment add_text(Nfa& nfa, std::string_view text, Spelling spelling);

}  // namespace nanolith::grammar
