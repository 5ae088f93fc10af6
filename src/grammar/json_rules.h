// The rules of JSON that constraints are made of: spaces, strings, numbers, literal values, any value. They let a model
// write a part of JSON only: little white space, so that texts go on, and numbers of few digits, whose values all
// readers agree about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/characters.h"
#include "grammar/grammar.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// A bound of numbers.
struct Bound {
    std::string literal;  // as JSON writes numbers
    bool exclusive = false;
};

struct NumberRange {
    std::optional<Bound> least;
    std::optional<Bound> most;
    bool integers = false;
    std::vector<int64_t> multiples;  // the number is a multiple of each; then it is an integer
};

class JsonRules {
  public:
    explicit JsonRules(RuleSet& rules) : rules_(rules) {}

    // Makes a rule of a fragment.
    Result<int32_t> add(const Nfa& nfa, Fragment whole);
    Result<void> set(int32_t rule, const Nfa& nfa, Fragment whole);
    Result<Dfa> dfa(const Nfa& nfa, Fragment whole) { return make_dfa(nfa, whole, work_); }

    // Nothing, a space, or a line end with indentation.
    Result<Fragment> add_spaces(Nfa& nfa);
    // A string in quotes, of any characters; `most` -1: no limit.
    Result<Fragment> add_string(Nfa& nfa, int32_t least, int32_t most);
    // A string whose inside, spelled as Spelling::json_string, the automaton accepts.
    Result<Fragment> add_string(Nfa& nfa, const Dfa& inside);
    // Insides of strings: any, and those of `least` to `most` characters (-1: no limit).
    Result<Dfa> any_inside();
    Result<Dfa> inside_of_length(int32_t least, int32_t most);
    // UNSUPPORTED for bounds with more digits than numbers have here.
    Result<Dfa> number(const NumberRange& range);
    // A given value; objects with their members in the same order.
    Result<Fragment> add_value(Nfa& nfa, const JsonValue& value);
    // Rules of any value, and of any object.
    Result<int32_t> any_value();
    Result<int32_t> any_object();

  private:
    Result<void> make_any();
    Result<Dfa> bounded_number(const NumberRange& range, bool integers);
    static Result<Dfa> with_multiples(Dfa numbers, const std::vector<int64_t>& multiples);
    Fragment add_string_character(Nfa& nfa);

    RuleSet& rules_;
    int64_t work_ = kMaxSubsetWork;
    int32_t spaces_ = kNoState;
    int32_t string_ = kNoState;
    int32_t value_ = kNoState;
    int32_t object_ = kNoState;
};

}  // namespace nanolith::grammar
