// Finds and remembers the tokens that can follow one state of a grammar.
#pragma once

#include <span>

#include "grammar/configs.h"

namespace nanolith::grammar {

// Walks the trie's subtree under `node` from `situation`, which is that of the node itself, and calls visit(node,
// situation) for each node below that can be reached.
template <typename Visit>
void walk_trie(const TokenTrie& trie, int32_t node, const Situation& situation, Stepper& stepper, const Visit& visit) {
    std::vector<Situation> path(1);  // of the nodes from `node` down to the latest
    path[0].configs = situation.configs;
    const int32_t base = trie.depth(node);
    for (int32_t n = node + 1; n < trie.end(node);) {
        const auto depth = static_cast<size_t>(trie.depth(n) - base);
        if (path.size() <= depth) path.resize(depth + 1);
        stepper.step(path[depth - 1].configs, trie.byte(n), path[depth]);
        const Situation& here = path[depth];
        if (here.configs.empty() && !here.ends && !here.escapes) {
            n = trie.end(n);
            continue;
        }
        visit(n, here);
        n = here.configs.empty() ? trie.end(n) : n + 1;
    }
}

// The tokens that can follow `state` of a rule whose caller is not known, in a counted rule after `count` units;
// `first`: as the text's first token. The caller holds the lock of the grammar's masks.
std::shared_ptr<const StateMask> find_state_mask(const Grammar& grammar, int32_t state, int32_t count, bool first);

// Sets the bits of the tokens that the rule itself can read, in a counted rule after `count` units.
void allow_inside(const Grammar& grammar, const StateMask& found, int32_t state, int32_t count,
                  std::span<uint32_t> mask);

// Finds the masks of states in the order of their numbers for at most `milliseconds` (the mask begun last is finished).
void prepare_masks(const Grammar& grammar, int64_t milliseconds);

}  // namespace nanolith::grammar
