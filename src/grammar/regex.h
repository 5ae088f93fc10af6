// Regular expressions: the part of ECMAScript's syntax that says which texts match, without what looks around or back.
//
//   a  .  [a-z]  [^a-z]  \d \w \s \D \W \S  \t \n \r \f \v \0 \xHH \uHHHH \u{H..}  and \ before a sign
//   ab  a|b  (a)  (?:a)  (?<name>a)  a* a+ a? a{n} a{n,} a{n,m}, also with ? behind  ^ and $ at the ends
//
// \d and \w are ASCII's, and so that a text fits whatever a reader means by them, \D and \W are the other ASCII
// characters only; \S is every character but Unicode's spaces; the dot is every character but line ends.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/characters.h"

namespace nanolith::grammar {

enum class Match : uint8_t {
    whole,    // the expression is the whole text
    anywhere  // it stands somewhere in the text, where ^ and $ do not say more
};

// Adds the texts of an expression. INVALID_ARGUMENT for one that is malformed, UNSUPPORTED for what is not known here;
// messages begin with "byte 12: ".
Result<Fragment> add_regex(Nfa& nfa, std::string_view pattern, Match match, Spelling spelling);

}  // namespace nanolith::grammar
