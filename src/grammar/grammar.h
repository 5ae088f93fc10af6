// A grammar: rules, each an automaton over bytes whose edges may call other rules, so that the whole is a pushdown
// automaton. A counted rule repeats a unit between `least` and `most` times without having that many states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/mask_cache.h"

namespace nanolith::grammar {

struct Rule {
    Dfa dfa = {};
    // A counted rule: the automaton reads units, none of which begins another, and is in state 0 before the first one
    // and in `boundary` after each. Between units it may end, or go to `closed` by the byte that closes it, where it
    // has read from `least` to `most` of them.
    bool counted = false;
    int32_t least = 0;
    int32_t most = 0;
    int32_t boundary = kNoState;
    int32_t closed = kNoState;
};

// A rule that reads `unit` from `least` to `most` times, and then `closing`, where there is one: a byte that no unit
// begins with. UNSUPPORTED where a unit begins another one.
Result<Rule> counted_rule(const Dfa& unit, int32_t least, int32_t most, std::optional<uint8_t> closing);

// Rules that may call each other before they are defined.
class RuleSet {
  public:
    Result<int32_t> reserve();  // the index of a rule that set() defines later
    Result<int32_t> add(Rule rule);
    void set(int32_t index, Rule rule) { rules_[index] = std::move(rule); }
    [[nodiscard]] const Rule& operator[](int32_t index) const { return rules_[index]; }
    [[nodiscard]] std::vector<Rule> take() { return std::move(rules_); }

  private:
    std::vector<Rule> rules_;
};

class Dependents;

// Immutable except for its cache of masks, which has a mutex of its own: so any thread may use it.
class Grammar {
  public:
    // UNSUPPORTED: a rule that calls itself before it has read a byte, or a limit. INVALID_ARGUMENT: no text
    // matches the rule `root`.
    static Result<std::shared_ptr<const Grammar>> link(std::vector<Rule> rules, int32_t root,
                                                       std::shared_ptr<const TokenTable> tokens);
    Grammar(const Grammar&) = delete;
    Grammar& operator=(const Grammar&) = delete;
    ~Grammar() = default;

    [[nodiscard]] const TokenTable& tokens() const { return *tokens_; }
    [[nodiscard]] int32_t start() const { return first_state_[root_]; }
    [[nodiscard]] int32_t num_states() const { return static_cast<int32_t>(rule_of_.size()); }

    // States of all rules have numbers of their own here.
    [[nodiscard]] int32_t rule_of(int32_t state) const { return rule_of_[state]; }
    [[nodiscard]] const Rule& rule(int32_t index) const { return rules_[index]; }
    [[nodiscard]] bool is_leaf(int32_t rule) const { return leaf_[rule] != 0; }
    [[nodiscard]] int32_t first_state(int32_t rule) const { return first_state_[rule]; }
    [[nodiscard]] int32_t after(int32_t state, uint8_t byte) const {
        const int32_t rule = rule_of_[state];
        const int32_t local = rules_[rule].dfa.after(state - first_state_[rule], byte);
        return local == kNoState ? kNoState : local + first_state_[rule];
    }
    // The one byte that the state reads, counts aside; kNoByte or kSeveralBytes.
    [[nodiscard]] int32_t only_byte(int32_t state) const {
        const int32_t rule = rule_of_[state];
        return rules_[rule].dfa.only_byte(state - first_state_[rule]);
    }
    // The calls of a state; Call::to counts from the first state of the state's rule.
    [[nodiscard]] const std::vector<Call>& calls(int32_t state) const {
        const int32_t rule = rule_of_[state];
        return rules_[rule].dfa.calls[state - first_state_[rule]];
    }
    // Whether the rule may end here, counts aside.
    [[nodiscard]] bool is_final(int32_t state) const {
        const int32_t rule = rule_of_[state];
        return rules_[rule].dfa.final[state - first_state_[rule]] != 0;
    }
    // Whether the state is one between units of a counted rule: before the first unit or directly after any.
    [[nodiscard]] bool is_boundary(int32_t state) const {
        const int32_t rule = rule_of_[state];
        const int32_t local = state - first_state_[rule];
        return rules_[rule].counted && (local == 0 || local == rules_[rule].boundary);
    }
    // Final, and nothing can follow: a call that would return there needs no frame on the stack.
    [[nodiscard]] bool only_ends(int32_t state) const { return only_ends_[state] != 0; }
    // How many more rules must be open at once, at least, before the rule ends from here.
    [[nodiscard]] int32_t depth_needed(int32_t state) const { return depth_needed_[state]; }
    [[nodiscard]] int32_t most_depth_needed() const { return most_depth_needed_; }

    // The fewest bytes after which the rule may end, from a state and after `count` units of a counted rule.
    [[nodiscard]] int64_t bytes_needed(int32_t state, int32_t count) const;
    // The most that bytes_needed() is anywhere in a rule, after no unit.
    [[nodiscard]] int64_t most_bytes_needed(int32_t rule) const { return most_bytes_needed_[rule]; }
    [[nodiscard]] int64_t most_bytes_needed() const { return most_bytes_of_all_; }

    // The masks that were found for this grammar.
    [[nodiscard]] GrammarMasks& masks() const { return masks_; }

  private:
    Grammar() = default;
    Result<void> find_ends(const Dependents& dependents, std::vector<uint8_t>& nullable);
    void prune(const std::vector<uint8_t>& live);
    Result<void> check_left_recursion(const std::vector<uint8_t>& nullable) const;
    void find_depths(const Dependents& dependents);
    void find_lengths(const Dependents& dependents);
    [[nodiscard]] int64_t bytes_of_call(int32_t rule) const;

    std::vector<Rule> rules_;
    int32_t root_ = 0;
    std::shared_ptr<const TokenTable> tokens_;
    std::vector<int32_t> first_state_;  // of each rule
    std::vector<int32_t> rule_of_;      // of each state
    std::vector<uint8_t> leaf_;
    std::vector<uint8_t> only_ends_;
    std::vector<int32_t> depth_needed_;
    int32_t most_depth_needed_ = 0;
    std::vector<int64_t> bytes_needed_;  // of each state; counted rules: without units that must follow
    std::vector<int64_t> unit_bytes_;    // of each counted rule, the shortest unit
    std::vector<int64_t> most_bytes_needed_;
    int64_t most_bytes_of_all_ = 0;
    mutable GrammarMasks masks_;
};

}  // namespace nanolith::grammar
