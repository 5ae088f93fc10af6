// What a constraint may cost. Constraints are untrusted input: one that exceeds a limit is refused with an error, but
// for kMaxDepth, kMaxConfigs and kMaxFrames, which restrict the texts while they are matched, and kMaxMaskBytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nanolith::grammar {

constexpr size_t kMaxConstraintBytes = size_t{1} << 20;  // longest text of a constraint
constexpr int32_t kMaxNesting = 64;                      // of a regular expression, a schema, an EBNF expression
constexpr int32_t kMaxNfaStates = 200000;                // of one rule, before it is made deterministic
constexpr int32_t kMaxDfaStates = 20000;                 // of one rule
constexpr int32_t kMaxGrammarStates = 100000;            // of all rules together
constexpr int64_t kMaxSubsetWork = 20000000;             // members of all sets in a grammar's subset constructions
constexpr int64_t kMaxMinimiseWork = 4000000;            // states looked at to make one automaton minimal
constexpr int64_t kMaxCopiedBytes = 20000000;            // of EBNF, read again for the repetitions of a grammar
constexpr int32_t kMaxRules = 20000;
constexpr int32_t kMaxRepeat = 10000;   // {n} in a regular expression or EBNF
constexpr int32_t kMaxDepth = 320;      // rules that are open at once while a text is matched
constexpr size_t kMaxConfigs = 512;     // ways to read a text that are followed at once
constexpr size_t kMaxFrames = 1 << 20;  // distinct stack frames of one matcher
// Of the masks that are remembered for a vocabulary, and of those that are for each grammar: beyond it they are found
// anew.
constexpr size_t kMaxMaskBytes = size_t{128} << 20U;

}  // namespace nanolith::grammar
