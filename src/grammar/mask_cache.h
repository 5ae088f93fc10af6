// Masks of tokens that are remembered: those of an automaton's states, for all grammars of a vocabulary that have the
// same automaton (the inside of a JSON string above all), and those of whole situations (Matcher::key()), for one
// grammar. Where masks would take more memory than a limit allows, all of them are forgotten, and found anew.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/token_trie.h"

namespace nanolith::grammar {

using Mask = std::vector<uint32_t>;  // [vocab_size / 32, rounded up] bit t % 32 of element t / 32: token t is allowed

inline void allow(std::span<uint32_t> mask, int32_t token) {
    mask[static_cast<size_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
}

// Tokens that can follow a state, as far as that can be told without knowing who called its rule.
struct StateMask {
    std::vector<int32_t> few;  // the tokens that stay inside the rule or end with it, where they are few,
    Mask bits;                 // or as bits, where they are many
    // A place inside of a token at which the rule may end; in a counted rule after so many units of the token.
    struct Escape {
        int32_t node = 0;
        int32_t units = 0;
    };
    std::vector<Escape> escapes;
    // In a counted rule without calls: tokens by the number of units that must still be allowed to begin, the fewest
    // first, and how many need at most 0, 1, 2 .. units.
    std::vector<int32_t> by_units;
    std::vector<int32_t> num_within;
    // The same tokens as masks, one for each such number, made when they are needed.
    mutable std::vector<Mask> by_room;
};

// The memory that it takes, approximately.
size_t bytes_of(const StateMask& mask);

// Of one automaton without calls; a place for each of its states.
struct LeafMasks {
    std::vector<std::shared_ptr<const StateMask>> states;
    std::vector<std::shared_ptr<const StateMask>> first_states;  // where nothing stands before the token
};

// Of one vocabulary.
struct MaskCache {
    // The masks of the automaton with this signature and so many states; the caller holds the mutex.
    std::shared_ptr<LeafMasks> of_leaf(std::string signature, int32_t num_states);
    // Counts bytes that a new mask takes, or that one has grown by. If all would exceed kMaxMaskBytes, the masks so far
    // are forgotten first. The caller holds the mutex.
    void add(size_t more);

    std::mutex mutex;                                                    // for everything here and in the LeafMasks
    std::unordered_map<std::string, std::shared_ptr<LeafMasks>> leaves;  // by Dfa::signature()
    size_t bytes = 0;                                                    // of all masks, and of the keys and places
};

// Of one grammar.
struct GrammarMasks {
    // Remembers the mask of a state of a rule that calls others; the caller holds the mutex.
    void remember(uint64_t state, std::shared_ptr<const StateMask> mask);

    std::mutex mutex;
    std::vector<std::shared_ptr<LeafMasks>> leaves;                         // [rules] null for those that call others
    std::unordered_map<uint64_t, std::shared_ptr<const StateMask>> states;  // of rules that call others
    size_t state_bytes = 0;                                                 // of these masks
    std::unordered_map<std::string, std::shared_ptr<const Mask>> situations;
};

}  // namespace nanolith::grammar
