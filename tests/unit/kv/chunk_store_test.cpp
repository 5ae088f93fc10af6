#include "kv/chunk_store.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

class ChunkStoreTest : public ::testing::Test {
  protected:
    std::shared_ptr<Chunk> add(std::vector<int32_t> tokens, int32_t level, int32_t pages,
                               ChunkStore::Identities before = {}) {
        PageList list(pool);
        list.grow(pages);
        auto chunk = std::make_shared<Chunk>(store.intern(tokens, std::move(before)), level, std::move(list));
        chunk->state = Chunk::State::ready;
        store.insert(chunk);
        return chunk;
    }
    bool holds(const std::vector<int32_t>& tokens) { return store.find(*store.intern(tokens, {}), 2) != nullptr; }

    PagePool pool{16};
    ChunkStore store;
};

TEST_F(ChunkStoreTest, FindsByTokensAndPredecessors) {
    const auto a = add({1, 2}, 0, 1);
    const auto alone = add({3}, 1, 1);
    const auto behind_a = add({3}, 1, 1, {a->identity});
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{3}, {}), 1), alone);
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{3}, {a->identity}), 1), behind_a);
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{3}, {alone->identity}), 1), nullptr);
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{3, 3}, {}), 1), nullptr);
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{2, 1}, {}), 1), nullptr);
}

TEST_F(ChunkStoreTest, AnIdentityOutlivesItsChunksPages) {
    auto a = add({1}, 0, 1);
    const auto behind_a = add({2}, 1, 1, {a->identity});
    a.reset();
    static_cast<void>(store.evict(1));
    EXPECT_FALSE(holds({1}));
    const auto again = add({1}, 0, 1);
    EXPECT_EQ(store.find(*store.intern(std::vector<int32_t>{2}, {again->identity}), 1), behind_a);
}

TEST_F(ChunkStoreTest, EvictsHighLevelsFirstThenTheLeastRecentlyUsed) {
    add({10}, 0, 1);
    add({11}, 1, 2);
    add({12}, 1, 2);
    add({13}, 2, 1);
    const auto used = add({14}, 2, 4);
    EXPECT_TRUE(holds({11}));  // a use: {12} is older now
    EXPECT_EQ(store.evictable_pages(), 6);
    static_cast<void>(store.evict(1));
    EXPECT_FALSE(holds({13}));
    static_cast<void>(store.evict(1));
    EXPECT_FALSE(holds({12}));
    EXPECT_TRUE(holds({11}));
    static_cast<void>(store.evict(3));
    EXPECT_FALSE(holds({11}));
    EXPECT_FALSE(holds({10}));
    EXPECT_TRUE(holds({14}));
    EXPECT_EQ(pool.num_free(), 16 - 4);
    EXPECT_EQ(store.evictable_pages(), 0);
}

TEST_F(ChunkStoreTest, EvictsByPriorityThenByCostAndRecency) {
    add({1}, 1, 1)->retention.priority = NL_PRIORITY_LOWEST;
    add({2}, 1, 1)->retention.priority = NL_PRIORITY_PINNED;
    const auto cost = [&](int32_t token, double of_a_page) {
        const auto chunk = add({token}, 1, 1);
        chunk->retention.cost = of_a_page;
        store.find(*chunk->identity, 1);  // a use
    };
    cost(3, 3);
    cost(4, 1);
    cost(5, 1);
    EXPECT_EQ(store.evictable_pages(), 4);
    const auto next = [&] { return store.evict(1).front()->identity->tokens.front(); };
    EXPECT_EQ(next(), 1);
    EXPECT_EQ(next(), 4);
    // A chunk that is used after evictions stands above what it would have been worth before: 1 + 1, then 2 + 1.
    cost(6, 1);
    EXPECT_EQ(next(), 5);
    EXPECT_EQ(next(), 6);
    cost(7, 1.5);
    EXPECT_EQ(next(), 3);  // its 3 were from the beginning; {7} is worth 2 + 1.5
    EXPECT_EQ(next(), 7);
    EXPECT_TRUE(store.evict(1).empty());
}

TEST_F(ChunkStoreTest, TenantsAreApart) {
    Digest salt{};
    salt[0] = std::byte{1};
    const auto tenant = store.tenant(salt);
    EXPECT_EQ(store.tenant(salt), tenant);
    salt[0] = std::byte{2};
    const auto other = store.tenant(salt);
    EXPECT_NE(other, tenant);
    const std::vector<int32_t> tokens{1, 2};
    const auto own = store.intern(tokens, {}, tenant);
    EXPECT_EQ(own, store.intern(tokens, {}, tenant));
    EXPECT_NE(own, store.intern(tokens, {}, other));
    EXPECT_NE(own, store.intern(tokens, {}));
    // Those that nobody has are forgotten when there are many, and others are not.
    for (int i = 0; i < 1000; ++i) {
        salt[1] = static_cast<std::byte>(i % 256);
        salt[2] = static_cast<std::byte>(i / 256 + 1);
        EXPECT_NE(store.tenant(salt), nullptr);
    }
    salt = tenant->salt;
    EXPECT_EQ(store.tenant(salt), tenant);
}

TEST_F(ChunkStoreTest, AFoundChunkKeepsTheLowerLevel) {
    const auto chunk = add({1}, 2, 1);
    EXPECT_EQ(store.find(*chunk->identity, 1)->retention.level, 1);
    EXPECT_EQ(store.find(*chunk->identity, 2)->retention.level, 1);
}

TEST_F(ChunkStoreTest, ManyDeadIdentitiesDoNotPileUpWrongly) {
    const auto kept = add({-1}, 0, 1);
    for (int32_t i = 0; i < 1000; ++i) EXPECT_NE(store.intern(std::vector<int32_t>{i}, {}), nullptr);
    EXPECT_EQ(store.intern(std::vector<int32_t>{-1}, {}), kept->identity);
}

}  // namespace
}  // namespace nanolith
