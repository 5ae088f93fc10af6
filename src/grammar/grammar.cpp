#include "grammar/grammar.h"

#include <algorithm>

#include "grammar/dependents.h"

namespace nanolith::grammar {

Result<Rule> counted_rule(const Dfa& unit, int32_t least, int32_t most, std::optional<uint8_t> closing) {
    Rule rule{.counted = true, .least = least, .most = most};
    const int32_t old = unit.size();
    const int32_t classes = unit.num_classes;
    Dfa& dfa = rule.dfa;
    dfa.class_of = unit.class_of;
    dfa.num_classes = classes + (closing ? 1 : 0);
    rule.boundary = old;
    if (closing) {
        dfa.class_of[*closing] = static_cast<uint8_t>(classes);
        rule.closed = old + 1;
        if (classes == 256 || unit.after(0, *closing) != kNoState)
            return fail(NL_ERROR_INTERNAL, "the byte that closes a counted rule begins a unit of it");
    }
    const auto target = [&](int32_t to) { return to != kNoState && unit.final[to] != 0 ? rule.boundary : to; };
    const auto add_state = [&](int32_t from, bool final) {
        for (int32_t c = 0; c < classes; ++c)
            dfa.next.push_back(from == kNoState ? kNoState
                                                : target(unit.next[static_cast<size_t>(from) * classes + c]));
        if (closing) dfa.next.push_back(from == kNoState ? kNoState : target(unit.after(from, *closing)));
        dfa.final.push_back(final ? 1 : 0);
        dfa.calls.emplace_back();
        if (from == kNoState) return;
        for (const Call& call : unit.calls[from]) dfa.calls.back().push_back({call.rule, target(call.to)});
    };
    for (int32_t s = 0; s < old; ++s) {
        if (unit.final[s] != 0) {
            bool goes_on = s == 0 || !unit.calls[s].empty();
            for (int32_t c = 0; c < classes; ++c)
                goes_on = goes_on || unit.next[static_cast<size_t>(s) * classes + c] != kNoState;
            if (goes_on) return fail(NL_ERROR_UNSUPPORTED, "what is repeated can begin another one of itself");
        }
        add_state(s, s == 0 && !closing);
    }
    add_state(0, !closing);
    if (!closing) return rule;
    add_state(kNoState, true);
    for (const int32_t state : {0, rule.boundary})
        dfa.next[static_cast<size_t>(state) * dfa.num_classes + classes] = rule.closed;
    return rule;
}

Result<int32_t> RuleSet::reserve() {
    return add({});
}

Result<int32_t> RuleSet::add(Rule rule) {
    if (rules_.size() >= static_cast<size_t>(kMaxRules))
        return fail(NL_ERROR_UNSUPPORTED, "it needs more than ", kMaxRules, " rules: expected a simpler one");
    rules_.push_back(std::move(rule));
    return static_cast<int32_t>(rules_.size()) - 1;
}

Result<std::shared_ptr<const Grammar>> Grammar::link(std::vector<Rule> rules, int32_t root,
                                                     std::shared_ptr<const TokenTable> tokens) {
    std::shared_ptr<Grammar> grammar(new Grammar());
    grammar->rules_ = std::move(rules);
    grammar->root_ = root;
    grammar->tokens_ = std::move(tokens);
    int64_t states = 0;
    for (const Rule& rule : grammar->rules_) states += rule.dfa.size();
    if (states > kMaxGrammarStates)
        return fail(NL_ERROR_UNSUPPORTED, "it needs ", states, " states: expected at most ", kMaxGrammarStates);
    for (size_t r = 0; r < grammar->rules_.size(); ++r) {
        grammar->first_state_.push_back(static_cast<int32_t>(grammar->rule_of_.size()));
        grammar->leaf_.push_back(grammar->rules_[r].dfa.is_leaf() ? 1 : 0);
        grammar->rule_of_.insert(grammar->rule_of_.end(), grammar->rules_[r].dfa.size(), static_cast<int32_t>(r));
    }
    const Dependents dependents(*grammar);
    std::vector<uint8_t> nullable;
    NL_TRY(grammar->find_ends(dependents, nullable));
    NL_TRY(grammar->check_left_recursion(nullable));
    grammar->find_depths(dependents);
    grammar->find_lengths(dependents);

    GrammarMasks& masks = grammar->masks_;
    MaskCache& shared = *grammar->tokens_->cache;
    const std::lock_guard lock(shared.mutex);
    for (size_t r = 0; r < grammar->rules_.size(); ++r) {
        masks.leaves.emplace_back();
        if (grammar->leaf_[r] == 0) continue;
        const Rule& rule = grammar->rules_[r];
        std::string name = rule.dfa.signature();
        if (rule.counted) name += "counted";  // masks are the same for all counts
        masks.leaves.back() = shared.of_leaf(std::move(name), rule.dfa.size());
    }
    return std::shared_ptr<const Grammar>(std::move(grammar));
}

// Removes states that lead to no end, and finds the rules that match the empty text.
Result<void> Grammar::find_ends(const Dependents& dependents, std::vector<uint8_t>& nullable) {
    std::vector<uint8_t> live(rule_of_.size(), 0);
    nullable.assign(rules_.size(), 0);
    std::vector<uint8_t> empty(rule_of_.size(), 0);  // from here the rule can end without a byte
    const auto ends_at_once = [this](int32_t state) {
        const Rule& rule = rules_[rule_of_[state]];
        return is_final(state) && (!is_boundary(state) || rule.least == 0);
    };
    dependents.until_nothing_changes([&](int32_t s) {
        const int32_t r = rule_of_[s];
        const Dfa& dfa = rules_[r].dfa;
        const int32_t first = first_state_[r];
        bool is_live = live[s] != 0 || is_final(s);
        bool is_empty = empty[s] != 0 || ends_at_once(s);
        const size_t row = static_cast<size_t>(s - first) * dfa.num_classes;
        for (int32_t c = 0; c < dfa.num_classes && !is_live; ++c)
            is_live = dfa.next[row + c] != kNoState && live[first + dfa.next[row + c]] != 0;
        for (const Call& call : dfa.calls[s - first]) {
            is_live = is_live || (live[first_state_[call.rule]] != 0 && live[first + call.to] != 0);
            is_empty = is_empty || (empty[first_state_[call.rule]] != 0 && empty[first + call.to] != 0);
        }
        if (is_live == (live[s] != 0) && is_empty == (empty[s] != 0)) return false;
        live[s] = is_live ? 1 : 0;
        empty[s] = is_empty ? 1 : 0;
        return true;
    });
    if (live[start()] == 0) return fail(NL_ERROR_INVALID_ARGUMENT, "no text satisfies it");
    for (size_t r = 0; r < rules_.size(); ++r) nullable[r] = empty[first_state_[r]];
    prune(live);
    return {};
}

void Grammar::prune(const std::vector<uint8_t>& live) {
    only_ends_.assign(rule_of_.size(), 0);
    for (size_t r = 0; r < rules_.size(); ++r) {
        Dfa& dfa = rules_[r].dfa;
        const int32_t first = first_state_[r];
        for (int32_t& to : dfa.next)
            if (to != kNoState && live[first + to] == 0) to = kNoState;
        for (int32_t s = 0; s < dfa.size(); ++s) {
            std::erase_if(dfa.calls[s], [&](const Call& call) {
                return live[first_state_[call.rule]] == 0 || live[first + call.to] == 0;
            });
            bool goes_on = rules_[r].counted || dfa.final[s] == 0 || !dfa.calls[s].empty();
            for (int32_t c = 0; c < dfa.num_classes && !goes_on; ++c)
                goes_on = dfa.next[static_cast<size_t>(s) * dfa.num_classes + c] != kNoState;
            only_ends_[first + s] = goes_on ? 0 : 1;
        }
    }
}

// A rule that calls itself, through others perhaps, before a byte is read, would be called without end.
Result<void> Grammar::check_left_recursion(const std::vector<uint8_t>& nullable) const {
    std::vector<std::vector<int32_t>> calls_first(rules_.size());
    for (size_t r = 0; r < rules_.size(); ++r) {
        std::vector<int32_t> open = {0};
        std::vector<uint8_t> seen(rules_[r].dfa.size(), 0);
        seen[0] = 1;
        while (!open.empty()) {
            const int32_t state = open.back();
            open.pop_back();
            for (const Call& call : rules_[r].dfa.calls[state]) {
                calls_first[r].push_back(call.rule);
                if (nullable[call.rule] == 0 || seen[call.to] != 0) continue;
                seen[call.to] = 1;
                open.push_back(call.to);
            }
        }
    }
    // Rules that call nothing, or only rules taken away before, are taken away until none is left, or a circle.
    std::vector<int32_t> left(rules_.size(), 0);
    std::vector<std::vector<int32_t>> callers(rules_.size());
    std::vector<int32_t> open;
    for (size_t r = 0; r < rules_.size(); ++r) {
        left[r] = static_cast<int32_t>(calls_first[r].size());
        if (left[r] == 0) open.push_back(static_cast<int32_t>(r));
        for (const int32_t called : calls_first[r]) callers[called].push_back(static_cast<int32_t>(r));
    }
    size_t gone = 0;
    while (!open.empty()) {
        const int32_t rule = open.back();
        open.pop_back();
        ++gone;
        for (const int32_t caller : callers[rule])
            if (--left[caller] == 0) open.push_back(caller);
    }
    if (gone == rules_.size()) return {};
    return fail(NL_ERROR_UNSUPPORTED,
                "a rule begins with itself (left recursion): expected one that reads something first");
}

void Grammar::find_depths(const Dependents& dependents) {
    constexpr int32_t kFar = 1 << 20;
    depth_needed_.assign(rule_of_.size(), kFar);
    dependents.until_nothing_changes([this](int32_t s) {
        const int32_t r = rule_of_[s];
        const Rule& rule = rules_[r];
        const int32_t first = first_state_[r];
        int32_t least = depth_needed_[s];
        const bool must_go_on = is_boundary(s) && rule.least > (s == first ? 0 : 1);
        if (leaf_[r] != 0 || (is_final(s) && !must_go_on)) least = 0;
        for (int32_t c = 0; c < rule.dfa.num_classes && least > 0; ++c) {
            const int32_t to = rule.dfa.next[static_cast<size_t>(s - first) * rule.dfa.num_classes + c];
            if (to != kNoState && !(must_go_on && to == rule.closed))
                least = std::min(least, depth_needed_[first + to]);
        }
        for (const Call& call : calls(s)) {
            const int32_t frame = only_ends_[first + call.to] != 0 ? 0 : 1;
            const int32_t inside = frame + depth_needed_[first_state_[call.rule]];
            // Behind a unit the rule may end; what the next unit needs, this one needed too.
            const int32_t behind = call.to == rule.boundary ? 0 : depth_needed_[first + call.to];
            least = std::min(least, std::max(inside, behind));
        }
        if (least == depth_needed_[s]) return false;
        depth_needed_[s] = least;
        return true;
    });
    // States that were pruned are never entered.
    for (const int32_t depth : depth_needed_)
        if (depth < kFar) most_depth_needed_ = std::max(most_depth_needed_, depth);
}

namespace {
constexpr int64_t kNeverEnds = int64_t{1} << 50U;
}

int64_t Grammar::bytes_of_call(int32_t rule) const {
    const int64_t bytes = bytes_needed_[first_state_[rule]];
    if (!rules_[rule].counted) return bytes;
    return std::min(kNeverEnds, bytes + unit_bytes_[rule] * rules_[rule].least);
}

// At a boundary only the closing byte is counted here.
void Grammar::find_lengths(const Dependents& dependents) {
    bytes_needed_.assign(rule_of_.size(), kNeverEnds);
    unit_bytes_.assign(rules_.size(), kNeverEnds >> 20U);
    for (int32_t s = 0; s < num_states(); ++s) {
        if (is_boundary(s)) {
            bytes_needed_[s] = rules_[rule_of_[s]].closed == kNoState ? 0 : 1;
        } else if (is_final(s)) {
            bytes_needed_[s] = 0;
        }
    }
    dependents.until_nothing_changes([this](int32_t s) {
        const int32_t r = rule_of_[s];
        const Rule& rule = rules_[r];
        const int32_t first = first_state_[r];
        int64_t least = kNeverEnds;
        for (int32_t c = 0; c < rule.dfa.num_classes; ++c) {
            const int32_t to = rule.dfa.next[static_cast<size_t>(s - first) * rule.dfa.num_classes + c];
            if (to != kNoState && (!is_boundary(s) || to != rule.closed))
                least = std::min(least, 1 + bytes_needed_[first + to]);
        }
        for (const Call& call : calls(s))
            least = std::min(least, bytes_of_call(call.rule) + bytes_needed_[first + call.to]);
        int64_t& shortest = is_boundary(s) ? unit_bytes_[r] : bytes_needed_[s];
        if (is_boundary(s)) least -= bytes_needed_[s];
        if (least >= shortest) return false;
        shortest = least;
        return true;
    });
    most_bytes_needed_.assign(rules_.size(), 0);
    for (int32_t s = 0; s < num_states(); ++s) {
        const int64_t bytes = bytes_needed(s, 0);
        if (bytes >= kNeverEnds) continue;  // states that are never entered
        most_bytes_needed_[rule_of_[s]] = std::max(most_bytes_needed_[rule_of_[s]], bytes);
        most_bytes_of_all_ = std::max(most_bytes_of_all_, bytes);
    }
}

int64_t Grammar::bytes_needed(int32_t state, int32_t count) const {
    const int32_t r = rule_of_[state];
    const Rule& rule = rules_[r];
    if (!rule.counted || state - first_state_[r] == rule.closed) return bytes_needed_[state];
    const int32_t missing = rule.least - count - (is_boundary(state) ? 0 : 1);
    // Capped, so that sums over a whole stack do not overflow.
    return std::min(kNeverEnds, bytes_needed_[state] + unit_bytes_[r] * std::max(missing, 0));
}

}  // namespace nanolith::grammar
