// Regular expressions of tokenizer files, in PCRE2's words. Those of tokenizer.json are written for Oniguruma (its Ruby
// syntax), those of tekken.json for Rust's fancy-regex.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

enum class PatternSyntax : uint8_t { oniguruma, rust };

// The same expression for PCRE2 with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. UNSUPPORTED where the expression has
// something that the two read differently or that is not known here; the message names it and begins with `where`.
//
// Known are: literals, `.`, `^`, `$`, `|`, groups `( (?: (?i: (?= (?! (?<= (?<!`, classes without nested ones, the
// quantifiers `? * + {n,m}` with a lazy `?` and a possessive `+` (after braces Oniguruma's `+` repeats once more, and
// its `?` is not known); the escapes \s \S \d \D \w \W \r \n \t \f \v \xHH \x{H} \uHHHH and of punctuation; \p of
// general categories and common scripts.
Result<std::string> translate_pattern(std::string_view pattern, const std::string& where,
                                      PatternSyntax syntax = PatternSyntax::oniguruma);

}  // namespace nanolith
