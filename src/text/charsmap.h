// The normalisation table of a SentencePiece model ("precompiled_charsmap"), checked before libsentencepiece reads
// it without bounds.
#pragma once

#include <string>
#include <string_view>

namespace nanolith {

// What is wrong with `charsmap`, or an empty string when no text can lead a reader outside of it.
// Layout: a uint32 of the trie's bytes; the trie, a double array (Aoe, 1989) of uint32 units as darts-clone writes
// them; strings that end with a zero byte, which the trie's values point into.
std::string check_charsmap(std::string_view charsmap);

}  // namespace nanolith
