#include "text/stop_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nanolith {
namespace {

TEST(StopTexts, HoldsBackWhatMayBecomeOne) {
    StopTexts stops({"STOP", "\n\n"});
    std::string text;
    EXPECT_FALSE(stops.push("one S", text));
    EXPECT_EQ(text, "one ");
    EXPECT_FALSE(stops.push("T", text));
    EXPECT_EQ(text, "one ");
    EXPECT_FALSE(stops.push("AR\n", text));
    EXPECT_EQ(text, "one STAR");
    EXPECT_TRUE(stops.push("\nmore", text));
    EXPECT_EQ(text, "one STAR");
}

TEST(StopTexts, TheEarliestCounts) {
    StopTexts stops({"later", "sooner"});
    std::string text;
    EXPECT_TRUE(stops.push("a sooner and a later", text));
    EXPECT_EQ(text, "a ");
}

TEST(StopTexts, WhatIsHeldBackComesAtTheEnd) {
    StopTexts stops({"abcabd"});
    std::string text;
    EXPECT_FALSE(stops.push("xabcab", text));
    EXPECT_EQ(text, "x");
    EXPECT_FALSE(stops.push("c", text));  // "abc" may still begin it
    EXPECT_EQ(text, "xabc");
    stops.finish(text);
    EXPECT_EQ(text, "xabcabc");
}

TEST(StopTexts, WithoutAnyTextGoesThrough) {
    StopTexts stops({});
    std::string text;
    EXPECT_FALSE(stops.push("everything", text));
    EXPECT_EQ(text, "everything");
}

// Whatever the pieces, the text ends before the first place where a stop text stands in the whole.
TEST(StopTexts, RandomTextsInRandomPieces) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto letters = [&](size_t most) {
        std::string text(1 + random() % most, 'a');
        for (char& letter : text) letter = static_cast<char>('a' + random() % 3);
        return text;
    };
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::string> list;
        for (size_t i = random() % 4; i > 0; --i) list.push_back(letters(5));
        const std::string whole = letters(40);
        StopTexts stops(list);
        std::string text;
        bool stopped = false;
        size_t fed = 0;
        while (fed < whole.size() && !stopped) {
            const size_t length = std::min(whole.size() - fed, 1 + random() % 6);
            stopped = stops.push(whole.substr(fed, length), text);
            fed += length;
        }
        if (!stopped) stops.finish(text);
        // The pieces up to the first in which a stop text is complete are what was seen.
        const std::string seen = whole.substr(0, fed);
        size_t first = std::string::npos;
        for (const std::string& stop : list) first = std::min(first, seen.find(stop));
        ASSERT_EQ(stopped, first != std::string::npos);
        ASSERT_EQ(text, seen.substr(0, first)) << whole;
    }
}

}  // namespace
}  // namespace nanolith
