#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace nanolith::grammar {

// ---- Building

int32_t Nfa::add_state() {
    if (states_.size() >= static_cast<size_t>(kMaxNfaStates)) {
        too_large_ = true;
        return 0;
    }
    states_.emplace_back();
    return static_cast<int32_t>(states_.size()) - 1;
}

void Nfa::add_edge(int32_t from, uint8_t first, uint8_t last, int32_t to) {
    if (!too_large_) states_[from].edges.push_back({first, last, to});
}

void Nfa::add_empty(int32_t from, int32_t to) {
    if (!too_large_) states_[from].empty.push_back(to);
}

Fragment Nfa::nothing() {
    const Fragment whole = never();
    add_empty(whole.begin, whole.end);
    return whole;
}

Fragment Nfa::never() {
    const int32_t begin = add_state();
    return {begin, add_state()};
}

Fragment Nfa::range(uint8_t first, uint8_t last) {
    const Fragment whole = never();
    add_edge(whole.begin, first, last, whole.end);
    return whole;
}

Fragment Nfa::text(std::string_view bytes) {
    const int32_t begin = add_state();
    int32_t at = begin;
    for (const char byte : bytes) {
        const int32_t to = add_state();
        add_edge(at, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
        at = to;
    }
    return {begin, at};
}

Fragment Nfa::call(int32_t rule) {
    const Fragment whole = never();
    if (!too_large_) states_[whole.begin].calls.push_back({rule, whole.end});
    return whole;
}

Fragment Nfa::characters(uint32_t first, uint32_t last) {
    struct Length {
        uint32_t first, last;
        int bytes;
    };
    // Code points by the length of their UTF-8, without the surrogates D800 to DFFF.
    static constexpr Length kLengths[] = {
        {0, 0x7F, 1}, {0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, 0x10FFFF, 4}};
    const Fragment whole = never();
    for (const Length& length : kLengths) {
        const uint32_t from = std::max(first, length.first);
        const uint32_t to = std::min(last, length.last);
        if (from <= to) add_utf8(whole, from, to, length.bytes);
    }
    return whole;
}

// Characters whose UTF-8 has `bytes` bytes. The range is cut where the bytes behind the first differ in what they
// allow, so that each piece is a product of byte ranges.
void Nfa::add_utf8(Fragment whole, uint32_t first, uint32_t last, int bytes) {
    for (int tail = 1; tail < bytes; ++tail) {
        const uint32_t mask = (1U << (6 * tail)) - 1;
        if ((first & ~mask) == (last & ~mask)) continue;
        if ((first & mask) != 0) {
            add_utf8(whole, first, first | mask, bytes);
            return add_utf8(whole, (first | mask) + 1, last, bytes);
        }
        if ((last & mask) != mask) {
            add_utf8(whole, first, (last & ~mask) - 1, bytes);
            return add_utf8(whole, last & ~mask, last, bytes);
        }
    }
    static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int32_t at = whole.begin;
    for (int i = 0; i < bytes; ++i) {
        const int shift = 6 * (bytes - 1 - i);
        const uint8_t base = i == 0 ? kLead[bytes] : 0x80;
        const uint32_t mask = i == 0 ? 0x7F : 0x3F;
        const int32_t to = i == bytes - 1 ? whole.end : add_state();
        add_edge(at, static_cast<uint8_t>(base | ((first >> shift) & mask)),
                 static_cast<uint8_t>(base | ((last >> shift) & mask)), to);
        at = to;
    }
}

Fragment Nfa::then(Fragment a, Fragment b) {
    add_empty(a.end, b.begin);
    return {a.begin, b.end};
}

Fragment Nfa::either(const std::vector<Fragment>& parts) {
    const Fragment whole = never();
    for (const Fragment part : parts) {
        add_empty(whole.begin, part.begin);
        add_empty(part.end, whole.end);
    }
    return whole;
}

Fragment Nfa::optional(Fragment a) {
    return either({a, nothing()});
}

Fragment Nfa::star(Fragment a) {
    const Fragment whole = nothing();
    add_empty(whole.begin, a.begin);
    add_empty(a.end, a.begin);
    add_empty(a.end, whole.end);
    return whole;
}

Fragment insert(Nfa& nfa, const Dfa& dfa) {
    std::vector<int32_t> states;
    states.reserve(static_cast<size_t>(dfa.size()));
    for (int32_t s = 0; s < dfa.size(); ++s) states.push_back(nfa.add_state());
    const int32_t begin = nfa.add_state();
    const int32_t end = nfa.add_state();
    if (nfa.too_large()) return {begin, end};
    nfa.add_empty(begin, states[0]);
    for (int32_t s = 0; s < dfa.size(); ++s) {
        if (dfa.final[s] != 0) nfa.add_empty(states[s], end);
        for (int first = 0; first < 256;) {
            const int32_t to = dfa.after(s, static_cast<uint8_t>(first));
            int last = first;
            while (last < 255 && dfa.after(s, static_cast<uint8_t>(last + 1)) == to) ++last;
            if (to != kNoState)
                nfa.add_edge(states[s], static_cast<uint8_t>(first), static_cast<uint8_t>(last), states[to]);
            first = last + 1;
        }
    }
    return {begin, end};
}

// ---- The subset construction

namespace {

using StateSet = std::vector<int32_t>;  // sorted

struct SetHash {
    size_t operator()(const StateSet& set) const {
        uint64_t hash = 1469598103934665603U;
        for (const int32_t member : set) hash = (hash ^ static_cast<uint64_t>(member)) * 1099511628211U;
        return hash;
    }
};

class Subsets {
  public:
    Subsets(const Nfa& nfa, int32_t end, int64_t& work)
        : nfa_(nfa.states()), end_(end), work_(work), seen_(nfa_.size(), 0) {
        find_classes();
    }

    Result<Dfa> run(int32_t begin) {
        id_of({begin});
        for (size_t i = 0; i < sets_.size(); ++i) {
            if (sets_.size() > static_cast<size_t>(kMaxDfaStates))
                return fail(NL_ERROR_UNSUPPORTED, "it needs more than ", kMaxDfaStates,
                            " states: expected a simpler one");
            if (work_ < 0) return fail(NL_ERROR_UNSUPPORTED, "it takes too long to prepare: expected a simpler one");
            expand(*sets_[i]);
        }
        return std::move(dfa_);
    }

  private:
    // Bytes that no edge tells apart are one class.
    void find_classes() {
        std::array<bool, 257> cut{};
        for (const Nfa::State& state : nfa_) {
            for (const Nfa::Edge& edge : state.edges) cut[edge.first] = cut[edge.last + 1] = true;
        }
        int32_t current = 0;
        for (int byte = 0; byte < 256; ++byte) {
            if (byte > 0 && cut[byte]) ++current;
            dfa_.class_of[byte] = static_cast<uint8_t>(current);
            if (byte == 0 || cut[byte]) samples_.push_back(static_cast<uint8_t>(byte));
        }
        dfa_.num_classes = current + 1;
    }

    // The number of the set of all states that are reached from `set` without a byte.
    int32_t id_of(StateSet set) {
        ++mark_;
        for (const int32_t state : set) seen_[state] = mark_;
        for (size_t i = 0; i < set.size(); ++i) {
            const StateSet& empty = nfa_[set[i]].empty;
            work_ -= 1 + static_cast<int64_t>(empty.size());
            for (const int32_t to : empty) {
                if (seen_[to] == mark_) continue;
                seen_[to] = mark_;
                set.push_back(to);
            }
        }
        // States with empty edges only say nothing of their own.
        std::erase_if(set, [this](int32_t state) {
            return state != end_ && nfa_[state].edges.empty() && nfa_[state].calls.empty();
        });
        std::ranges::sort(set);
        const auto [found, is_new] = ids_.try_emplace(std::move(set), static_cast<int32_t>(sets_.size()));
        if (is_new) {
            sets_.push_back(&found->first);
            dfa_.final.push_back(std::ranges::binary_search(found->first, end_) ? 1 : 0);
        }
        return found->second;
    }

    void expand(const StateSet& set) {
        std::vector<StateSet> to(dfa_.num_classes);
        std::map<int32_t, StateSet> by_rule;
        for (const int32_t state : set) {
            for (const Nfa::Edge& edge : nfa_[state].edges) {
                for (int c = dfa_.class_of[edge.first]; c <= dfa_.class_of[edge.last]; ++c) to[c].push_back(edge.to);
                work_ -= dfa_.class_of[edge.last] - dfa_.class_of[edge.first] + 1;
            }
            for (const Call& call : nfa_[state].calls) by_rule[call.rule].push_back(call.to);
        }
        for (StateSet& members : to) dfa_.next.push_back(members.empty() ? kNoState : id_of(unique(members)));
        std::vector<Call> calls;
        calls.reserve(by_rule.size());
        for (auto& [rule, members] : by_rule) calls.push_back({rule, id_of(unique(members))});
        dfa_.calls.push_back(std::move(calls));
    }

    static StateSet unique(StateSet& set) {
        std::ranges::sort(set);
        set.erase(std::unique(set.begin(), set.end()), set.end());
        return std::move(set);
    }

    const std::vector<Nfa::State>& nfa_;
    const int32_t end_;
    int64_t& work_;
    std::vector<uint8_t> samples_;
    Dfa dfa_;
    std::unordered_map<StateSet, int32_t, SetHash> ids_;  // its keys stay where they are
    std::vector<const StateSet*> sets_;
    std::vector<uint64_t> seen_;
    uint64_t mark_ = 0;
};

}  // namespace

Result<Dfa> make_dfa(const Nfa& nfa, Fragment whole, int64_t& work) {
    if (nfa.too_large())
        return fail(NL_ERROR_UNSUPPORTED, "it needs more than ", kMaxNfaStates, " states: expected a simpler one");
    NL_ASSIGN(Dfa dfa, Subsets(nfa, whole.end, work).run(whole.begin));
    return dfa.is_leaf() ? minimise(dfa) : std::move(dfa);
}

// ---- Of deterministic automata

int32_t Dfa::only_byte(int32_t state) const {
    const int32_t* const row = next.data() + static_cast<size_t>(state) * static_cast<size_t>(num_classes);
    const auto reads = [](int32_t to) { return to != kNoState; };
    const int32_t* const found = std::find_if(row, row + num_classes, reads);
    if (found == row + num_classes) return kNoByte;
    if (std::any_of(found + 1, row + num_classes, reads)) return kSeveralBytes;
    const auto byte = std::ranges::find(class_of, static_cast<uint8_t>(found - row));
    const bool is_one = std::find(byte + 1, class_of.end(), *byte) == class_of.end();
    return is_one ? static_cast<int32_t>(byte - class_of.begin()) : kSeveralBytes;
}

bool Dfa::is_leaf() const {
    return std::ranges::all_of(calls, [](const auto& of_state) { return of_state.empty(); });
}

bool Dfa::accepts(std::string_view text) const {
    int32_t state = 0;
    for (const char byte : text) {
        state = after(state, static_cast<uint8_t>(byte));
        if (state == kNoState) return false;
    }
    return final[state] != 0;
}

bool Dfa::is_empty() const {
    std::vector<uint8_t> seen(final.size(), 0);
    std::vector<int32_t> open = {0};
    seen[0] = 1;
    while (!open.empty()) {
        const int32_t state = open.back();
        open.pop_back();
        if (final[state] != 0) return false;
        for (int32_t c = 0; c < num_classes; ++c) {
            const int32_t to = next[static_cast<size_t>(state) * num_classes + c];
            if (to == kNoState || seen[to] != 0) continue;
            seen[to] = 1;
            open.push_back(to);
        }
    }
    return true;
}

namespace {

// For each state the fewest bytes to a final one, kNoState where none can be reached.
std::vector<int32_t> find_distances(const Dfa& dfa) {
    std::vector<std::vector<int32_t>> before(dfa.final.size());
    for (int32_t s = 0; s < dfa.size(); ++s) {
        for (int32_t c = 0; c < dfa.num_classes; ++c) {
            const int32_t to = dfa.next[static_cast<size_t>(s) * dfa.num_classes + c];
            if (to != kNoState) before[to].push_back(s);
        }
    }
    std::vector<int32_t> distances(dfa.final.size(), kNoState);
    std::vector<int32_t> found;
    const auto add = [&](int32_t state, int32_t distance) {
        if (distances[state] != kNoState) return;
        distances[state] = distance;
        found.push_back(state);
    };
    for (int32_t s = 0; s < dfa.size(); ++s)
        if (dfa.final[s] != 0) add(s, 0);
    for (size_t i = 0; i < found.size(); ++i) {
        const int32_t state = found[i];
        for (const int32_t s : before[state]) add(s, distances[state] + 1);
    }
    return distances;
}

// The states of `dfa` merged as `block_of` says (kNoState: dropped), numbered in the order in which a search from state
// 0 meets them, and byte classes that are treated alike merged: so that equal languages give equal automata.
Dfa merged(const Dfa& dfa, const std::vector<int32_t>& block_of) {
    std::map<std::vector<int32_t>, uint8_t> columns;
    std::vector<int32_t> first_class;  // of each new class, one of the old
    std::vector<uint8_t> new_class(dfa.num_classes);
    Dfa result;
    for (int byte = 0; byte < 256; ++byte) {
        const int32_t old = dfa.class_of[byte];
        std::vector<int32_t> column;
        for (int32_t s = 0; s < dfa.size(); ++s) {
            if (block_of[s] == kNoState) continue;
            const int32_t to = dfa.next[static_cast<size_t>(s) * dfa.num_classes + old];
            column.push_back(to == kNoState ? kNoState : block_of[to]);
        }
        const auto [found, is_new] = columns.try_emplace(std::move(column), static_cast<uint8_t>(columns.size()));
        if (is_new) first_class.push_back(old);
        result.class_of[byte] = found->second;
    }
    result.num_classes = static_cast<int32_t>(first_class.size());
    std::unordered_map<int32_t, int32_t> number;  // of a block
    std::vector<int32_t> order = {0};             // a state of each block
    number[block_of[0]] = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        const int32_t state = order[i];
        result.final.push_back(dfa.final[state]);
        result.calls.emplace_back();
        for (const int32_t c : first_class) {
            const int32_t to = dfa.next[static_cast<size_t>(state) * dfa.num_classes + c];
            if (to == kNoState || block_of[to] == kNoState) {
                result.next.push_back(kNoState);
                continue;
            }
            const auto [found, is_new] = number.try_emplace(block_of[to], static_cast<int32_t>(order.size()));
            if (is_new) order.push_back(to);
            result.next.push_back(found->second);
        }
    }
    return result;
}

}  // namespace

Dfa minimise(const Dfa& dfa) {
    // Equivalent states have the same distance to a final one.
    std::vector<int32_t> block = find_distances(dfa);
    if (block[0] == kNoState) {
        Dfa empty;
        empty.final = {0};
        empty.next = {kNoState};
        empty.calls.resize(1);
        return empty;
    }
    size_t num_blocks = 0;
    int64_t work = 0;
    while (true) {
        work += dfa.size();
        if (work > kMaxMinimiseWork) {
            // A chain of states may take a round for each of them. No states are merged then.
            for (int32_t s = 0; s < dfa.size(); ++s)
                if (block[s] != kNoState) block[s] = s;
            break;
        }
        std::unordered_map<StateSet, int32_t, SetHash> ids;
        std::vector<int32_t> refined(block.size(), kNoState);
        for (int32_t s = 0; s < dfa.size(); ++s) {
            if (block[s] == kNoState) continue;
            StateSet key = {block[s]};
            for (int32_t c = 0; c < dfa.num_classes; ++c) {
                const int32_t to = dfa.next[static_cast<size_t>(s) * dfa.num_classes + c];
                key.push_back(to == kNoState ? kNoState : block[to]);
            }
            refined[s] = ids.try_emplace(std::move(key), static_cast<int32_t>(ids.size())).first->second;
        }
        block = std::move(refined);
        if (ids.size() == num_blocks) break;
        num_blocks = ids.size();
    }
    return merged(dfa, block);
}

namespace {

// The pairs of states that both automata reach. kNoState stands for having left `b`, which ends the pair where
// `difference` is false.
Result<Dfa> product(const Dfa& a, const Dfa& b, bool difference) {
    Dfa result;
    std::vector<std::pair<int32_t, int32_t>> class_pairs;
    std::map<std::pair<int32_t, int32_t>, int32_t> class_ids;
    for (int byte = 0; byte < 256; ++byte) {
        const std::pair<int32_t, int32_t> both = {a.class_of[byte], b.class_of[byte]};
        const auto [found, is_new] = class_ids.try_emplace(both, static_cast<int32_t>(class_pairs.size()));
        if (is_new) class_pairs.push_back(both);
        result.class_of[byte] = static_cast<uint8_t>(found->second);
    }
    result.num_classes = static_cast<int32_t>(class_pairs.size());
    std::map<std::pair<int32_t, int32_t>, int32_t> ids = {{{0, 0}, 0}};
    std::vector<std::pair<int32_t, int32_t>> order = {{0, 0}};
    for (size_t i = 0; i < order.size(); ++i) {
        if (order.size() > static_cast<size_t>(kMaxDfaStates) * 4)
            return fail(NL_ERROR_UNSUPPORTED, "it needs more than ", kMaxDfaStates * 4,
                        " states: expected simpler or fewer rules for one string");
        const auto [of_a, of_b] = order[i];
        const bool in_b = of_b != kNoState && b.final[of_b] != 0;
        result.final.push_back(a.final[of_a] != 0 && in_b != difference ? 1 : 0);
        result.calls.emplace_back();
        for (const auto& [class_a, class_b] : class_pairs) {
            const int32_t to_a = a.next[static_cast<size_t>(of_a) * a.num_classes + class_a];
            const int32_t to_b =
                of_b == kNoState ? kNoState : b.next[static_cast<size_t>(of_b) * b.num_classes + class_b];
            if (to_a == kNoState || (to_b == kNoState && !difference)) {
                result.next.push_back(kNoState);
                continue;
            }
            const auto [found, is_new] = ids.try_emplace({to_a, to_b}, static_cast<int32_t>(order.size()));
            if (is_new) order.emplace_back(to_a, to_b);
            result.next.push_back(found->second);
        }
    }
    return minimise(result);
}

}  // namespace

Result<Dfa> intersect(const Dfa& a, const Dfa& b) {
    return product(a, b, false);
}

Result<Dfa> subtract(const Dfa& a, const Dfa& b) {
    return product(a, b, true);
}

std::string Dfa::signature() const {
    std::string text(class_of.begin(), class_of.end());
    text.append(reinterpret_cast<const char*>(next.data()), next.size() * sizeof(next[0]));
    text.append(final.begin(), final.end());
    return text;
}

}  // namespace nanolith::grammar
