// What a constraint may cost. Constraints come from strangers: each of these is an error that names the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nanolith::grammar {

constexpr size_t kMaxConstraintBytes = size_t{1} << 20;  // longest text of a constraint
constexpr int32_t kMaxNesting = 64;                      // of a regular expression, a schema, an EBNF expression
constexpr int32_t kMaxNfaStates = 200000;                // of one rule, before it is made deterministic
constexpr int32_t kMaxDfaStates = 20000;                 // of one rule
constexpr int32_t kMaxGrammarStates = 100000;            // of all rules together
constexpr int64_t kMaxSubsetWork = 20000000;             // members of all sets of the subset constructions of a grammar
constexpr int32_t kMaxRules = 20000;
constexpr int32_t kMaxRepeat = 10000;   // {n} in a regular expression or EBNF
constexpr int32_t kMaxDepth = 320;      // rules that are open at once while a text is matched
constexpr size_t kMaxConfigs = 512;     // ways in which a text can be read at once
constexpr size_t kMaxFrames = 1 << 20;  // different stacks of one matcher

}  // namespace nanolith::grammar
