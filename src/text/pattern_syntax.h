// Regular expressions of tokenizer.json, which are written for Oniguruma (its Ruby syntax), in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

// The same expression for PCRE2 with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. UNSUPPORTED where the expression has
// something that the two read differently or that is not known here; the message names it and begins with `where`.
//
// Known are: literals, `.`, `^`, `$`, `|`, groups `( (?: (?i: (?= (?! (?<= (?<!`, classes without nested ones, the
// quantifiers `? * + {n,m}` with a lazy `?` and, but for braces, a possessive `+`; the escapes \s \S \d \D \w \W
// \r \n \t \f \v \xHH \x{H} \uHHHH and of punctuation; \p of general categories and common scripts.
Result<std::string> translate_pattern(std::string_view pattern, const std::string& where);

}  // namespace nanolith
