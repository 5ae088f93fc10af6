// Grammars in the EBNF that llama.cpp's users know (GBNF):
//
//   root ::= "a" name* | [0-9]+ ( "," name ){0,3}      # a comment
//   name ::= [a-z] .
//
// A rule goes on until the next one begins. Texts have the escapes \n \r \t \" \' \\ \[ \] \xHH \uHHHH \UHHHHHHHH; sets
// of characters are those of regular expressions; the dot is any character.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"

namespace nanolith::grammar {

// Adds the grammar's rules and gives the index of `root`. INVALID_ARGUMENT: malformed, a rule that is missing or
// defined twice; UNSUPPORTED: a limit is exceeded. Messages begin with "byte 12: ", and name the rule.
Result<int32_t> add_ebnf(RuleSet& rules, std::string_view text);

}  // namespace nanolith::grammar
