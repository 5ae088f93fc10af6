// What SentencePiece's vocabularies have in place of a space.
#pragma once

#include <string_view>

namespace nanolith {

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, lower one eighth block

}  // namespace nanolith
