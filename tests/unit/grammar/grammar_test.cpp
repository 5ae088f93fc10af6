// What a grammar knows of its states, against what is known of the rules by their making.
#include <algorithm>
#include <numeric>

#include "grammar/grammar_limits.h"
#include "grammar/mask_cache.h"
#include "unit/grammar/grammar_fixtures.h"

namespace nanolith::grammar::test {
namespace {

// Rules each of which calls the next between two bytes, in this order: rule `order[i]` is defined at place i.
std::string nested_rules(const std::vector<int>& order) {
    std::string text = "root ::= r0\n";
    const int last = static_cast<int>(order.size()) - 1;
    for (const int i : order) {
        text += "r" + std::to_string(i) + " ::= \"(\" ";
        text += i == last ? "\"x\"" : "r" + std::to_string(i + 1);
        text += " \")\"\n";
    }
    return text;
}

// With as many rules as a grammar may have, in any order. (Where each round over all rules found out about one more,
// 19,000 rules that are defined before their callers took 17 s.)
TEST(Grammar, KnowsItsRulesInAnyOrder) {
    const uint32_t seed = std::random_device{}();
    constexpr int kNested = kMaxRules - 1;
    std::vector<int> callers_first(kNested);
    std::iota(callers_first.begin(), callers_first.end(), 0);
    const std::vector<int> callers_last(callers_first.rbegin(), callers_first.rend());
    std::vector<int> shuffled = callers_first;
    std::ranges::shuffle(shuffled, std::mt19937(seed));
    for (const auto& order : {callers_first, callers_last, shuffled}) {
        const auto grammar = compile_text(ConstraintKind::ebnf, nested_rules(order));
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        EXPECT_EQ((*grammar)->bytes_needed((*grammar)->start(), 0), 2 * kNested + 1) << "seed " << seed;
        EXPECT_EQ((*grammar)->most_depth_needed(), kNested - 1) << "seed " << seed;
    }
}

// Rules that call each other in circles, in any order: the shortest text is the one with the fewest bytes, not that
// with the fewest calls.
TEST(Grammar, FindsTheShortestTextOfRulesInCircles) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    for (int run = 0; run < 50; ++run) {
        const int count = 2 + static_cast<int>(random() % 30);
        std::vector<std::vector<std::pair<int, int>>> ways(count);  // of each rule: bytes, and the rule called, or -1
        for (int i = 0; i < count; ++i) {
            for (uint32_t left = random() % 4 + 1; left > 0; --left)
                ways[i].emplace_back(1 + random() % 9, random() % static_cast<uint32_t>(count));
            if (random() % 5 == 0 || i == 0) ways[i].emplace_back(1 + random() % 40, -1);
        }
        // Bellman and Ford's algorithm over the rules.
        std::vector<int64_t> shortest(count, 1 << 20);
        for (int round = 0; round < count; ++round)
            for (int i = 0; i < count; ++i)
                for (const auto& [bytes, called] : ways[i])
                    shortest[i] = std::min(shortest[i], bytes + (called < 0 ? 0 : shortest[called]));
        std::string text = "root ::= r0\n";
        std::vector<int> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::shuffle(order, random);
        for (const int i : order) {
            text += "r" + std::to_string(i) + " ::=";
            for (size_t way = 0; way < ways[i].size(); ++way) {
                const auto& [bytes, called] = ways[i][way];
                // Each way begins with a byte of its own.
                const std::string bytes_of_way =
                    static_cast<char>('a' + way) + std::string(static_cast<size_t>(bytes) - 1, 'x');
                text += (way > 0 ? " | \"" : " \"") + bytes_of_way + "\"";
                if (called >= 0) text += " r" + std::to_string(called);
            }
            text += "\n";
        }
        const auto grammar = compile_text(ConstraintKind::ebnf, text);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message << " seed " << seed;
        EXPECT_EQ((*grammar)->bytes_needed((*grammar)->start(), 0), shortest[0]) << text << " seed " << seed;
    }
}

// The masks that are remembered for all grammars of a vocabulary take at most kMaxMaskBytes. When another mask would
// exceed that, all masks are forgotten, and so is every automaton that no grammar uses any more.
TEST(MaskCache, ForgetsWhatIsTooMuch) {
    MaskCache cache;
    const auto in_use = cache.of_leaf("in use", 64);
    cache.of_leaf("not in use", 64);
    const auto mask = [] {
        auto made = std::make_shared<StateMask>();
        made->bits.resize(size_t{1} << 18U);  // 1 MiB
        return made;
    };
    size_t found = 0;
    for (int i = 0; i < 400; ++i) {
        const auto made = mask();
        cache.add(bytes_of(*made));
        in_use->states[i % 64] = made;
        EXPECT_LE(cache.bytes, kMaxMaskBytes);
        EXPECT_GE(cache.bytes, bytes_of(*made));
        if (cache.leaves.size() == 1) ++found;
    }
    EXPECT_GT(found, 200U);
    EXPECT_EQ(cache.of_leaf("in use", 64), in_use);
    EXPECT_EQ(in_use->states.size(), 64U);
}

// The masks that one grammar remembers for its own situations take at most kMaxMaskBytes. When another mask would
// exceed that, all of them are forgotten.
TEST(GrammarMasks, ForgetWhatIsTooMuch) {
    GrammarMasks masks;
    for (uint64_t i = 0; i < 300; ++i) {
        auto made = std::make_shared<StateMask>();
        made->bits.resize(size_t{1} << 18U);
        masks.remember(i, made);
        size_t bytes = 0;
        for (const auto& [state, mask] : masks.states) bytes += bytes_of(*mask);
        EXPECT_LE(bytes, kMaxMaskBytes);
        EXPECT_EQ(masks.states.at(i), made);
    }
    EXPECT_LT(masks.states.size(), 129U);
}

}  // namespace
}  // namespace nanolith::grammar::test
