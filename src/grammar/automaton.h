// Finite automata over bytes, whose edges may also call a rule of a grammar: built as nondeterministic ones (Thompson's
// construction), made deterministic by the subset construction, and made small by Moore's partition refinement.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_limits.h"

namespace nanolith::grammar {

constexpr int32_t kNoState = -1;
// In place of the only byte that a state reads.
constexpr int32_t kNoByte = -1;
constexpr int32_t kSeveralBytes = -2;

// After a text of rule `rule` the automaton is in state `to`.
struct Call {
    int32_t rule = 0;
    int32_t to = 0;
    bool operator==(const Call&) const = default;
    auto operator<=>(const Call&) const = default;
};

// A part of an Nfa: paths from `begin` to `end`. Nothing leads into `begin` nor out of `end` but what is added later.
struct Fragment {
    int32_t begin = 0;
    int32_t end = 0;
};

// With kMaxNfaStates states it adds no more, and is too_large() once another one is asked for.
class Nfa {
  public:
    struct Edge {
        uint8_t first = 0;  // bytes first to last
        uint8_t last = 0;
        int32_t to = 0;
    };
    struct State {
        std::vector<Edge> edges;
        std::vector<Call> calls;
        std::vector<int32_t> empty;  // states that are reached without a byte
    };

    int32_t add_state();
    void add_edge(int32_t from, uint8_t first, uint8_t last, int32_t to);
    void add_empty(int32_t from, int32_t to);

    Fragment nothing();  // the empty text
    Fragment never();    // no text
    Fragment range(uint8_t first, uint8_t last);
    Fragment text(std::string_view bytes);
    Fragment call(int32_t rule);
    // Characters first to last in UTF-8, surrogates left out.
    Fragment characters(uint32_t first, uint32_t last);
    Fragment then(Fragment a, Fragment b);
    Fragment either(const std::vector<Fragment>& parts);
    Fragment optional(Fragment a);
    Fragment star(Fragment a);  // any number of times

    [[nodiscard]] const std::vector<State>& states() const { return states_; }
    [[nodiscard]] bool too_large() const { return too_large_; }

  private:
    void add_utf8(Fragment whole, uint32_t first, uint32_t last, int bytes);

    std::vector<State> states_;
    bool too_large_ = false;
};

// Deterministic: at most one way for each byte and each rule that can be called. State 0 is the first.
struct Dfa {
    std::array<uint8_t, 256> class_of = {};  // bytes of one class are treated alike everywhere
    int32_t num_classes = 1;
    std::vector<int32_t> next;  // [states, classes] the state after a byte, or kNoState
    std::vector<uint8_t> final;
    std::vector<std::vector<Call>> calls;

    [[nodiscard]] int32_t size() const { return static_cast<int32_t>(final.size()); }
    [[nodiscard]] int32_t after(int32_t state, uint8_t byte) const {
        return next[static_cast<size_t>(state) * num_classes + class_of[byte]];
    }
    // The one byte that the state reads, kNoByte or kSeveralBytes.
    [[nodiscard]] int32_t only_byte(int32_t state) const;
    [[nodiscard]] bool is_leaf() const;                       // calls nothing
    [[nodiscard]] bool accepts(std::string_view text) const;  // of a leaf
    [[nodiscard]] bool is_empty() const;                      // of a leaf: accepts no text
    // Of a leaf: leaves with the same signature accept the same texts. Minimal ones that do have the same signature.
    [[nodiscard]] std::string signature() const;
};

// `work` counts down from kMaxSubsetWork. UNSUPPORTED where a limit is reached.
Result<Dfa> make_dfa(const Nfa& nfa, Fragment whole, int64_t& work);
// These three are for leaves. Their results have no state from which no final one can be reached (but the first).
// minimise() gives the minimal automaton, unless this takes more than kMaxMinimiseWork.
Dfa minimise(const Dfa& dfa);
Result<Dfa> intersect(const Dfa& a, const Dfa& b);
Result<Dfa> subtract(const Dfa& a, const Dfa& b);  // texts of `a` that are none of `b`

// Puts a leaf's states into the Nfa as a fragment.
Fragment insert(Nfa& nfa, const Dfa& dfa);

}  // namespace nanolith::grammar
