// Which states of a grammar a fact about a state is derived from, the other way round: so that facts that depend on
// each other (which states lead to an end, how many bytes that takes) are derived again only where one of them has
// changed.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "grammar/grammar.h"

namespace nanolith::grammar {

// A fact about a state is derived from the facts about the states that its bytes and its calls lead to, and about the
// first states of the rules that it calls; of a counted rule that it calls, also from those about its boundary.
class Dependents {
  public:
    explicit Dependents(const Grammar& grammar);

    // Calls `derive(state)`, which tells whether the state's fact has changed, until nothing changes: once for each
    // state, the last one first, since automata are numbered from their beginning, and then for those that depend on
    // one that has changed. Ends where a fact can change a limited number of times.
    template <typename Derive>
    void until_nothing_changes(const Derive& derive) const;

  private:
    std::vector<int64_t> first_;      // [states + 1] where a state's dependents begin
    std::vector<int32_t> dependent_;  // those of all states, one after the other
};

template <typename Derive>
void Dependents::until_nothing_changes(const Derive& derive) const {
    const auto num_states = static_cast<int32_t>(first_.size()) - 1;
    std::deque<int32_t> waiting;
    for (int32_t s = num_states - 1; s >= 0; --s) waiting.push_back(s);
    std::vector<uint8_t> waits(static_cast<size_t>(num_states), 1);
    while (!waiting.empty()) {
        const int32_t s = waiting.front();
        waiting.pop_front();
        waits[s] = 0;
        if (!derive(s)) continue;
        for (int64_t i = first_[s]; i < first_[s + 1]; ++i) {
            const int32_t dependent = dependent_[i];
            if (waits[dependent] == 0) waiting.push_back(dependent);
            waits[dependent] = 1;
        }
    }
}

}  // namespace nanolith::grammar
