#include "grammar/dependents.h"

namespace nanolith::grammar {
namespace {

// Calls `visit(to)` for the states that a fact about `state` is derived from; some of them twice.
template <typename Visit>
void for_each_source(const Grammar& grammar, int32_t state, const Visit& visit) {
    const int32_t rule = grammar.rule_of(state);
    const Dfa& dfa = grammar.rule(rule).dfa;
    const int32_t first = grammar.first_state(rule);
    const size_t row = static_cast<size_t>(state - first) * dfa.num_classes;
    int32_t last = kNoState;
    for (int32_t c = 0; c < dfa.num_classes; ++c) {
        const int32_t to = dfa.next[row + c];
        if (to != kNoState && to != last) visit(first + to);  // neighbouring classes often lead to the same state
        last = to;
    }
    for (const Call& call : grammar.calls(state)) {
        const Rule& called = grammar.rule(call.rule);
        visit(first + call.to);
        visit(grammar.first_state(call.rule));
        if (called.counted) visit(grammar.first_state(call.rule) + called.boundary);
    }
}

}  // namespace

Dependents::Dependents(const Grammar& grammar) : first_(static_cast<size_t>(grammar.num_states()) + 1, 0) {
    // Counts them, turns the counts into the ends of their runs, and fills each run from its end.
    for (int32_t s = 0; s < grammar.num_states(); ++s)
        for_each_source(grammar, s, [this](int32_t source) { ++first_[source]; });
    int64_t total = 0;
    for (int64_t& end : first_) end = total += end;
    dependent_.resize(static_cast<size_t>(total));
    for (int32_t s = 0; s < grammar.num_states(); ++s)
        for_each_source(grammar, s, [&](int32_t source) { dependent_[--first_[source]] = s; });
}

}  // namespace nanolith::grammar
