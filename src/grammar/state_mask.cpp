#include "grammar/state_mask.h"

#include <algorithm>
#include <chrono>

namespace nanolith::grammar {
namespace {

constexpr size_t kFew = 512;  // the most tokens that are kept as a list

// Tokens as they are found, as a list or as bits.
class Collector {
  public:
    Collector(StateMask& result, int32_t vocab_size) : result_(result), vocab_size_(vocab_size) {}
    void add(std::span<const int32_t> tokens) {
        for (const int32_t token : tokens) {
            if (!result_.bits.empty()) {
                allow(result_.bits, token);
                continue;
            }
            result_.few.push_back(token);
            if (result_.few.size() <= kFew) continue;
            result_.bits.assign((static_cast<size_t>(vocab_size_) + 31) / 32, 0);
            for (const int32_t one : result_.few) allow(result_.bits, one);
            result_.few = {};
        }
    }

  private:
    StateMask& result_;
    const int32_t vocab_size_;
};

// Of an automaton without calls: its table alone is followed. (The inside of a string takes the whole vocabulary.)
void walk_leaf(const Dfa& dfa, int32_t start, const TokenTrie& trie, int32_t vocab_size, StateMask& result) {
    std::vector<int32_t> path(static_cast<size_t>(trie.longest()) + 1);
    path[0] = start;
    Collector tokens(result, vocab_size);
    for (int32_t n = 1; n < trie.size();) {
        const int32_t depth = trie.depth(n);
        const int32_t to = dfa.after(path[depth - 1], trie.byte(n));
        if (to == kNoState) {
            n = trie.end(n);
            continue;
        }
        path[depth] = to;
        tokens.add(trie.tokens(n));
        if (dfa.final[to] != 0 && trie.end(n) > n + 1) result.escapes.push_back({n, 0});
        ++n;
    }
}

// The tokens that need at most `room` units, found from those that need fewer.
const Mask& tokens_within(const StateMask& found, size_t room, size_t words) {
    Mask& bits = found.by_room[room];
    if (!bits.empty()) return bits;
    size_t below = room;
    while (below > 0 && found.by_room[below].empty()) --below;
    bits = found.by_room[below];
    const int32_t first = bits.empty() ? 0 : found.num_within[below];
    bits.resize(words, 0);
    for (int32_t i = first; i < found.num_within[room]; ++i) allow(bits, found.by_units[i]);
    return bits;
}

// Of a counted rule without calls, for all counts at once: the units that each token begins and ends are counted.
void walk_counted(const Rule& rule, int32_t start, const TokenTrie& trie, int32_t vocab_size, StateMask& result) {
    struct Place {
        int32_t state;
        int32_t ended;  // units that the token has ended
        int32_t begun;  // units that must be allowed to begin
    };
    std::vector<Place> path(static_cast<size_t>(trie.longest()) + 1);
    path[0] = {start, 0, 0};
    constexpr int32_t kMostUnits = 255;
    std::vector<std::vector<int32_t>> tokens(1);
    for (int32_t n = 1; n < trie.size();) {
        const int32_t depth = trie.depth(n);
        Place place = path[depth - 1];
        const bool between = place.state == 0 || place.state == rule.boundary;
        place.state = rule.dfa.after(place.state, trie.byte(n));
        if (place.state == kNoState) {
            n = trie.end(n);
            continue;
        }
        if (between && place.state != rule.closed) place.begun = place.ended + 1;
        if (place.state == rule.boundary) ++place.ended;
        // Longer runs of units within one token are left out.
        if (place.begun > kMostUnits) {
            n = trie.end(n);
            continue;
        }
        path[depth] = place;
        if (place.state == rule.closed || (rule.closed == kNoState && place.state == rule.boundary))
            result.escapes.push_back({n, place.ended});
        if (place.state != rule.closed && !trie.tokens(n).empty()) {
            if (tokens.size() <= static_cast<size_t>(place.begun)) tokens.resize(static_cast<size_t>(place.begun) + 1);
            auto& same = tokens[place.begun];
            same.insert(same.end(), trie.tokens(n).begin(), trie.tokens(n).end());
        }
        ++n;
    }
    for (const auto& same : tokens) {
        result.by_units.insert(result.by_units.end(), same.begin(), same.end());
        result.num_within.push_back(static_cast<int32_t>(result.by_units.size()));
    }
    result.by_room.resize(tokens.size());
    // Most tokens have few characters; those that have more make little work later.
    constexpr size_t kMadeAtOnce = 16;
    for (size_t room = 0; room < std::min(tokens.size(), kMadeAtOnce); ++room)
        tokens_within(result, room, (static_cast<size_t>(vocab_size) + 31) / 32);
}

void walk_with_calls(const Grammar& grammar, int32_t state, int32_t count, const TokenTrie& trie, StateMask& result) {
    Frames frames;
    Stepper stepper(grammar, frames);
    const Configuration config = {state, count, kUnknownCaller};
    Situation situation;
    stepper.enter({&config, 1}, situation);
    Collector tokens(result, grammar.tokens().vocab_size());
    walk_trie(trie, 0, situation, stepper, [&](int32_t node, const Situation& here) {
        tokens.add(trie.tokens(node));
        if (here.escapes && trie.end(node) > node + 1)
            for (const int32_t units : here.escape_units) result.escapes.push_back({node, units});
    });
}

}  // namespace

std::shared_ptr<const StateMask> find_state_mask(const Grammar& grammar, int32_t state, int32_t count, bool first) {
    GrammarMasks& masks = grammar.masks();
    const TokenTable& tokens = grammar.tokens();
    const TokenTrie& trie = tokens.trie_for(first);
    const int32_t rule_index = grammar.rule_of(state);
    if (!grammar.is_leaf(rule_index)) {
        const uint64_t key = (static_cast<uint64_t>(state) << 33U) | (static_cast<uint64_t>(first ? 1 : 0) << 32U) |
                             static_cast<uint32_t>(grammar.rule(rule_index).counted ? count : 0);
        if (const auto found = masks.states.find(key); found != masks.states.end()) return found->second;
        auto made = std::make_shared<StateMask>();
        walk_with_calls(grammar, state, count, trie, *made);
        masks.remember(key, made);
        return made;
    }
    const std::shared_ptr<LeafMasks>& leaf = masks.leaves[rule_index];
    const int32_t local = state - grammar.first_state(rule_index);
    MaskCache& shared = *tokens.cache;
    const std::lock_guard lock(shared.mutex);
    auto& place = first && tokens.first_trie ? leaf->first_states[local] : leaf->states[local];
    if (!place) {
        auto made = std::make_shared<StateMask>();
        const Rule& rule = grammar.rule(rule_index);
        if (rule.counted) {
            walk_counted(rule, local, trie, tokens.vocab_size(), *made);
        } else {
            walk_leaf(rule.dfa, local, trie, tokens.vocab_size(), *made);
        }
        shared.add(bytes_of(*made));
        place = std::move(made);
    }
    return place;
}

void allow_inside(const Grammar& grammar, const StateMask& found, int32_t state, int32_t count,
                  std::span<uint32_t> mask) {
    const auto allow_all = [mask](const Mask& bits) {
        for (size_t i = 0; i < bits.size(); ++i) mask[i] |= bits[i];
    };
    if (found.by_room.empty()) {
        for (const int32_t token : found.few) allow(mask, token);
        return allow_all(found.bits);
    }
    const int32_t room = grammar.rule(grammar.rule_of(state)).most - count;
    const size_t level = std::min(static_cast<size_t>(std::max(room, 0)), found.by_room.size() - 1);
    MaskCache& shared = *grammar.tokens().cache;
    const std::lock_guard lock(shared.mutex);
    if (found.by_room[level].empty()) shared.add(mask.size() * sizeof(uint32_t));
    allow_all(tokens_within(found, level, mask.size()));
}

void prepare_masks(const Grammar& grammar, int64_t milliseconds) {
    const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const std::lock_guard lock(grammar.masks().mutex);
    find_state_mask(grammar, grammar.start(), 0, true);
    for (int32_t state = 0; state < grammar.num_states(); ++state) {
        if (std::chrono::steady_clock::now() > last) return;
        if (grammar.depth_needed(state) > kMaxDepth || grammar.only_ends(state)) continue;
        find_state_mask(grammar, state, 0, false);
    }
}

}  // namespace nanolith::grammar
