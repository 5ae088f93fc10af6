#include "store/host_tier.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

constexpr size_t kPageBytes = 256;

class HostTierTest : public ::testing::Test {
  protected:
    static HostMemory block(size_t pages) {
        auto owner = std::make_shared<std::vector<std::byte>>(pages * kPageBytes);
        return {owner->data(), owner->size(), [owner](std::byte*) {}};
    }
    static std::vector<HostMemory> blocks() {
        std::vector<HostMemory> list;
        for (const size_t pages : {size_t{4}, size_t{1}, size_t{3}}) list.push_back(block(pages));
        return list;
    }
    std::unique_ptr<Chunk> chunk(int32_t token, int32_t level, int32_t pages) {
        PageList list(pool);
        list.grow(pages);
        return std::make_unique<Chunk>(store.intern(std::vector<int32_t>{token}, {}), level, std::move(list));
    }
    bool has(int32_t token) { return tier.find(*store.intern(std::vector<int32_t>{token}, {})) != nullptr; }

    PagePool pool{32};
    ChunkStore store;
    HostTier tier{blocks(), kPageBytes};
};

TEST_F(HostTierTest, PagesAreInOneEntryAlone) {
    std::vector<std::span<std::byte>> all;
    size_t bytes = 0;
    for (const int32_t pages : {3, 2, 3}) {
        const auto entry = tier.add(*chunk(pages + 10 * static_cast<int32_t>(all.size()), 1, pages));
        ASSERT_NE(entry, nullptr);
        std::vector<std::span<std::byte>> parts;
        tier.find_memory(*entry, parts);
        size_t sum = 0;
        for (const auto& part : parts) sum += part.size();
        EXPECT_EQ(sum, static_cast<size_t>(pages) * kPageBytes);
        for (const auto& part : parts)
            for (const auto& other : all)
                EXPECT_TRUE(part.data() >= other.data() + other.size() || other.data() >= part.data() + part.size());
        all.insert(all.end(), parts.begin(), parts.end());
        bytes += sum;
    }
    EXPECT_EQ(tier.bytes(), static_cast<int64_t>(bytes));
    EXPECT_EQ(tier.num_chunks(), 3);
}

TEST_F(HostTierTest, MakesRoomFromTheHighestLevelAndTheLongestUnused) {
    for (const int32_t token : {1, 2, 3}) tier.add(*chunk(token, token == 3 ? 2 : 1, 2));
    EXPECT_TRUE(has(1));
    tier.add(*chunk(4, 1, 4));  // two are free: the third goes, of level 2
    EXPECT_FALSE(has(3));
    EXPECT_TRUE(has(1));
    tier.add(*chunk(5, 0, 1));  // the second was used longest ago
    EXPECT_FALSE(has(2));
    EXPECT_TRUE(has(1) && has(4) && has(5));
    EXPECT_EQ(tier.evictions(), 2);
}

// A chunk comes back to the device, gets another priority, and is evicted again.
TEST_F(HostTierTest, AnEntryTakesOverALaterPriority) {
    const auto first = chunk(1, 1, 4);
    tier.add(*first);
    tier.add(*chunk(2, 1, 4));
    first->retention.priority = NL_PRIORITY_HIGHEST;
    EXPECT_EQ(tier.add(*first), nullptr);
    EXPECT_EQ(tier.find(*first->identity)->retention.priority, NL_PRIORITY_HIGHEST);
    EXPECT_TRUE(has(2));  // used later than the first
    tier.add(*chunk(3, 1, 4));
    EXPECT_TRUE(has(1));
    EXPECT_FALSE(has(2));
}

TEST_F(HostTierTest, WhatIsHeldOrTooLargeStaysOut) {
    const auto held = tier.add(*chunk(1, 2, 5));
    EXPECT_EQ(tier.add(*chunk(1, 2, 5)), nullptr) << "it is there already";
    EXPECT_EQ(tier.add(*chunk(2, 1, 4)), nullptr);
    EXPECT_EQ(tier.add(*chunk(3, 1, 9)), nullptr);
    EXPECT_TRUE(has(1));
    tier.remove(*held->identity);
    EXPECT_EQ(tier.bytes(), 0);
    EXPECT_NE(tier.add(*chunk(4, 1, 8)), nullptr);
}

}  // namespace
}  // namespace nanolith
