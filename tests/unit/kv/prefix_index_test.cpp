// Pages that are found again by their tokens, and what the pool does with them when nobody holds them.
#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include "kv/chunk_store.h"

namespace nanolith {
namespace {

using PrefixTokens = std::vector<int32_t>;

TEST(PrefixIndex, FindsAPageByItsTokensBelowItsParent) {
    PrefixIndex index;
    const auto root = index.root({}, {});
    const auto first = index.remember(root, PrefixTokens{1, 2, 3, 4}, 7);
    const auto second = index.remember(first, PrefixTokens{1, 2, 3, 4}, 9);
    EXPECT_EQ(index.find(root, PrefixTokens{1, 2, 3, 4})->page, 7);
    EXPECT_EQ(index.find(first, PrefixTokens{1, 2, 3, 4})->page, 9);
    EXPECT_EQ(index.find(first, PrefixTokens{1, 2, 3, 4})->node, second);
    EXPECT_FALSE(index.find(second, PrefixTokens{1, 2, 3, 4}).has_value());
    EXPECT_FALSE(index.find(root, PrefixTokens{1, 2, 3, 5}).has_value());
}

TEST(PrefixIndex, RemembersTheFirstOfTwoEqualPages) {
    PrefixIndex index;
    const auto root = index.root({}, {});
    const auto first = index.remember(root, PrefixTokens{1, 2}, 3);
    EXPECT_EQ(index.remember(root, PrefixTokens{1, 2}, 4), first);
    EXPECT_TRUE(index.remembers(3));
    EXPECT_FALSE(index.remembers(4));
}

TEST(PrefixIndex, WhatWasBelowAForgottenPageIsNotFoundAgain) {
    PrefixIndex index;
    const auto root = index.root({}, {});
    const auto old = index.remember(root, PrefixTokens{1, 2}, 3);
    index.remember(old, PrefixTokens{5, 6}, 4);
    index.forget(3);
    index.forget(3);
    EXPECT_FALSE(index.remembers(3));
    const auto fresh = index.remember(root, PrefixTokens{1, 2}, 3);
    EXPECT_NE(fresh, old);
    EXPECT_FALSE(index.find(fresh, PrefixTokens{5, 6}).has_value());
}

TEST(PrefixIndex, RootsAreOfTheSameChunksInTheSameLengths) {
    PrefixIndex index;
    ChunkStore store;
    const auto a = store.intern(PrefixTokens{1}, {});
    const auto b = store.intern(PrefixTokens{2}, {});
    const auto root = [&](std::vector<PrefixIndex::Before> before) { return index.root({}, before); };
    const auto both = root({{a, 1}, {b, 1}});
    EXPECT_EQ(both, root({{a, 1}, {b, 1}}));
    for (const auto other : {root({}), root({{a, 1}}), root({{b, 1}, {a, 1}}), root({{a, 1}, {b, 2}})})
        EXPECT_NE(both, other);
    // When there are many, roots below which nothing is remembered are dropped, and those of chunks that are gone.
    index.remember(both, PrefixTokens{5}, 3);
    for (int32_t i = 0; i < 500; ++i) root({{store.intern(PrefixTokens{100 + i}, {}), 1}});
    EXPECT_EQ(both, root({{a, 1}, {b, 1}}));
}

TEST(PrefixIndex, RootsAreOfOneTenant) {
    PrefixIndex index;
    Digest salt{};
    const auto nobodys = index.root(salt, {});
    salt[31] = std::byte{1};
    const auto tenants = index.root(salt, {});
    EXPECT_NE(tenants, nobodys);
    EXPECT_EQ(tenants, index.root(salt, {}));
    index.remember(tenants, PrefixTokens{5}, 3);
    EXPECT_FALSE(index.find(nobodys, PrefixTokens{5}).has_value());
}

class RememberedPages : public ::testing::Test {
  protected:
    // Lets go of a page of its own that is remembered for one token.
    void keep(PageList& list, int32_t token) {
        pool.prefixes().remember(root, PrefixTokens{token}, list[0]);
        list.clear();
    }
    bool knows(int32_t token) { return pool.prefixes().find(root, PrefixTokens{token}).has_value(); }
    PageList one() {
        PageList list(pool);
        list.grow(1);
        return list;
    }

    PagePool pool{4};
    PrefixIndex::Node root = pool.prefixes().root({}, {});
};

TEST_F(RememberedPages, AreFreeAndMayBeHeldAgain) {
    PageList list = one();
    const int32_t page = list[0];
    keep(list, 1);
    EXPECT_EQ(pool.num_free(), 4);
    list.append(page);
    EXPECT_EQ(pool.num_free(), 3);
    EXPECT_EQ(pool.uses(page), 1);
    EXPECT_TRUE(knows(1));
}

TEST_F(RememberedPages, TheOldestIsTakenWhenThereAreNoOthers) {
    std::vector<PageList> lists;
    for (int i = 0; i < 4; ++i) lists.push_back(one());
    for (const int32_t token : {2, 0, 3}) keep(lists[token], token);
    EXPECT_EQ(pool.num_free(), 3);
    const PageList first = one();
    EXPECT_FALSE(knows(2));
    EXPECT_TRUE(knows(0) && knows(3));
    lists[2].append(pool.prefixes().find(root, PrefixTokens{0})->page);  // is no longer the oldest
    const PageList second = one();
    EXPECT_TRUE(knows(0));
    EXPECT_FALSE(knows(3));
    EXPECT_EQ(pool.num_free(), 0);
}

TEST_F(RememberedPages, AreNoMoreThanWereEverHeldAtOnce) {
    for (const int32_t token : {0, 1, 2}) {
        PageList list = one();
        keep(list, token);
    }
    EXPECT_FALSE(knows(0) || knows(1));
    EXPECT_TRUE(knows(2));
    PageList two(pool);
    two.grow(2);
    two.clear();
    for (const int32_t token : {3, 4}) {
        PageList list = one();
        keep(list, token);
    }
    EXPECT_TRUE(knows(3) && knows(4));
    EXPECT_EQ(pool.num_free(), 4);
}

}  // namespace
}  // namespace nanolith
