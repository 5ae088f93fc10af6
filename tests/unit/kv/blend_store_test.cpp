// What conversations with the same chunks in the same order find of each other's recomputed tokens.
#include "kv/blend_store.h"

#include <gtest/gtest.h>

#include <vector>

namespace nanolith {
namespace {

class BlendStoreTest : public ::testing::Test {
  protected:
    static constexpr int32_t kPageSize = 16;

    static std::shared_ptr<Chunk> chunk(ChunkStore& store, PagePool& pool) {
        PageList pages(pool);
        pages.grow(3);
        return std::make_shared<Chunk>(store.intern(std::vector<int32_t>(40, 7), {}), 1, std::move(pages));
    }
    // One that begins before any of the others has recomputed anything.
    Context context() { return {pool, {{document, 40, 0}}}; }
    // Recomputes these units.
    static void recompute(Context& context, const std::vector<int32_t>& units) {
        std::vector<ChunkRun> runs;
        for (const int32_t unit : units) runs.push_back({0, unit * kBlendUnit, (unit + 1) * kBlendUnit});
        context.exchange_pages(runs, kPageSize);
    }
    static std::vector<int32_t> recomputed(const Context& context) {
        std::vector<int32_t> units;
        for (int32_t unit = 0; unit < units_for(40); ++unit)
            if (context.chunks()[0].blended->recomputed[unit]) units.push_back(unit);
        return units;
    }

    PagePool pool{64};
    ChunkStore store;
    std::shared_ptr<Chunk> document = chunk(store, pool);
    BlendStore blends{kPageSize};
};

TEST_F(BlendStoreTest, TheNextConversationFindsWhatOneRecomputed) {
    Context first = context();
    EXPECT_EQ(blends.find(first), nullptr);
    recompute(first, {1, 9});
    const auto kept = blends.keep(first);
    Context second = context();
    ASSERT_EQ(blends.find(second), kept);
    use_kept(*kept, second);
    EXPECT_EQ(second.chunks()[0].blended, first.chunks()[0].blended);
    // What it recomputes beside that is in the result afterwards, and the first goes on to use its own.
    const auto own = first.chunks()[0].blended;
    recompute(second, {2, 5});
    blends.keep(second);
    EXPECT_EQ(recomputed(second), (std::vector<int32_t>{1, 2, 5, 9}));
    EXPECT_EQ(first.chunks()[0].blended, own);
    Context third = context();
    use_kept(*blends.find(third), third);
    EXPECT_EQ(third.chunks()[0].blended, second.chunks()[0].blended);
}

// Two that began together: neither loses what it recomputed, and the result has of each page the latest version, or the
// one with more.
TEST_F(BlendStoreTest, OfOnesThatBeganTogetherEachKeepsItsTokens) {
    Context first = context();
    Context second = context();
    recompute(first, {0, 4, 5, 8});
    recompute(second, {1, 4});
    blends.keep(first);
    const int32_t pages[] = {first.chunks()[0].pages()[0], first.chunks()[0].pages()[1], first.chunks()[0].pages()[2]};
    const int32_t of_second = second.chunks()[0].pages()[0];
    blends.keep(second);
    EXPECT_EQ(recomputed(second), (std::vector<int32_t>{1, 4, 5, 8}));
    EXPECT_EQ(second.chunks()[0].pages()[0], of_second);
    EXPECT_EQ(second.chunks()[0].pages()[1], pages[1]);
    EXPECT_EQ(second.chunks()[0].pages()[2], pages[2]);
    EXPECT_EQ(recomputed(first), (std::vector<int32_t>{0, 4, 5, 8}));
    Context third = context();
    use_kept(*blends.find(third), third);
    EXPECT_EQ(recomputed(third), (std::vector<int32_t>{1, 4, 5, 8}));
}

// A result that adds nothing leaves the lists as they are, so that all conversations have the same ones.
TEST_F(BlendStoreTest, NothingNewChangesNothing) {
    Context first = context();
    recompute(first, {0, 1, 9});
    const auto kept = blends.keep(first);
    const auto pages = kept->pages[0];
    Context second = context();
    recompute(second, {1});
    EXPECT_EQ(blends.keep(second), kept);
    EXPECT_EQ(kept->pages[0], pages);
    EXPECT_EQ(second.chunks()[0].blended, pages);
}

TEST_F(BlendStoreTest, EvictionGivesBackItsPages) {
    {
        Context first = context();
        recompute(first, {0, 9});
        blends.keep(first);
        EXPECT_EQ(blends.evictable_pages(), 0);  // the conversation has them
    }
    EXPECT_EQ(blends.evictable_pages(), 2);
    const int32_t free = pool.num_free();
    blends.evict(1);
    EXPECT_EQ(pool.num_free(), free + 2);
    EXPECT_EQ(blends.evictable_pages(), 0);
}

}  // namespace
}  // namespace nanolith
