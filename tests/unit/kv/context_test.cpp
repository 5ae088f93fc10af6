#include "kv/context.h"

#include <gtest/gtest.h>

#include <numeric>

namespace nanolith {
namespace {

constexpr int32_t kPageSize = 16;

class ContextTest : public ::testing::Test {
  protected:
    std::shared_ptr<Chunk> chunk(int32_t first_token, int32_t length) {
        std::vector<int32_t> tokens(length);
        std::iota(tokens.begin(), tokens.end(), first_token);
        PageList pages(pool);
        pages.grow((length + kPageSize - 1) / kPageSize);
        return std::make_shared<Chunk>(store.intern(tokens, {}), 1, std::move(pages));
    }
    void grow(Context& context, const std::vector<int32_t>& tokens, bool computed) {
        context.append(tokens);
        if (!computed) return;
        context.tail_pages().grow((context.tail_size() + kPageSize - 1) / kPageSize - context.tail_pages().size());
        context.set_computed(context.tail_size());
    }

    PagePool pool{64};
    ChunkStore store;
};

TEST_F(ContextTest, TokensOfChunksAndTail) {
    Context context(pool, {{chunk(100, 20), 20, 0}, {chunk(200, 3), 3, 20}});
    grow(context, {1, 2}, true);
    grow(context, {3}, false);
    EXPECT_EQ(context.num_tokens(), 26);
    EXPECT_EQ(context.token_at(0), 100);
    EXPECT_EQ(context.token_at(20), 200);
    EXPECT_EQ(context.token_at(25), 3);
    EXPECT_EQ(context.tokens(26).size(), 26U);
    auto all_but_one = context.tokens(26);
    all_but_one.pop_back();
    EXPECT_EQ(context.tokens(25), all_but_one);
    EXPECT_EQ(context.num_pages(), 2 + 1 + 1);
    EXPECT_EQ(context.tail_size(), 3);
    EXPECT_EQ(context.tail_computed(), 2);
}

TEST_F(ContextTest, TruncationIntoTheTailGivesPagesBack) {
    Context context(pool, {});
    grow(context, std::vector<int32_t>(40, 7), true);
    context.truncate(17, kPageSize);
    EXPECT_EQ(context.tail_pages().size(), 2);
    context.truncate(16, kPageSize);
    EXPECT_EQ(context.tail_pages().size(), 1);
    context.truncate(0, kPageSize);
    EXPECT_EQ(context.tail_pages().size(), 0);
    EXPECT_EQ(pool.num_free(), 64);
}

TEST_F(ContextTest, TruncationIntoAChunkKeepsItsBeginning) {
    const auto first = chunk(100, 20);
    const auto second = chunk(200, 10);
    Context context(pool, {{first, 20, 0}, {second, 10, 20}});
    grow(context, {1, 2, 3}, true);
    context.truncate(24, kPageSize);
    EXPECT_EQ(context.num_tokens(), 24);
    EXPECT_EQ(context.tail_base(), 24);
    EXPECT_EQ(context.chunks().back().length, 4);
    EXPECT_EQ(context.tail_pages().size(), 0);
    grow(context, {9}, true);
    EXPECT_EQ(context.token_at(23), 203);
    EXPECT_EQ(context.token_at(24), 9);
    context.truncate(20, kPageSize);
    EXPECT_EQ(context.chunks().size(), 1U);
    EXPECT_EQ(second.use_count(), 1);
    context.truncate(0, kPageSize);
    EXPECT_TRUE(context.chunks().empty());
    EXPECT_EQ(context.num_tokens(), 0);
}

TEST_F(ContextTest, AForkSharesPagesAndKeepsItsOwnTokens) {
    Context context(pool, {{chunk(100, 5), 5, 0}});
    grow(context, std::vector<int32_t>(20, 7), true);
    grow(context, {8}, false);
    Context fork = context.fork();
    EXPECT_EQ(fork.tokens(26), context.tokens(26));
    EXPECT_EQ(fork.tokens_reused, 25);
    EXPECT_EQ(fork.tokens_computed, 0);
    EXPECT_TRUE(context.tail_pages().shared(1));
    fork.truncate(5, kPageSize);
    EXPECT_FALSE(context.tail_pages().shared(1));
    EXPECT_EQ(context.num_tokens(), 26);
}

// Of the pages in which runs lie, those that a run fills are not copied.
TEST_F(ContextTest, PagesOfRunsAreExchanged) {
    Context context(pool, {{chunk(100, 70), 70, 0}, {chunk(200, 40), 40, 70}});
    const std::vector<ChunkUse> before = context.chunks();
    const std::vector<ChunkRun> runs{{0, 4, 8}, {0, 12, 32}, {0, 64, 70}, {1, 0, 16}};
    const std::vector<PageCopy> copies = context.exchange_pages(runs, kPageSize);
    EXPECT_EQ(before[0].blended, nullptr);
    const ChunkUse& first = context.chunks()[0];
    const ChunkUse& second = context.chunks()[1];
    for (const int32_t page : {0, 1, 4}) EXPECT_NE(first.pages()[page], before[0].pages()[page]) << page;
    for (const int32_t page : {2, 3}) EXPECT_EQ(first.pages()[page], before[0].pages()[page]) << page;
    EXPECT_NE(second.pages()[0], before[1].pages()[0]);
    EXPECT_EQ(context.num_private_pages(), 4);
    ASSERT_EQ(copies.size(), 1U);  // the second run fills page 1, the third what there is of page 4
    EXPECT_EQ(copies[0].from, before[0].pages()[0]);
    EXPECT_EQ(copies[0].to, first.pages()[0]);
    for (int32_t unit = 0; unit < units_for(70); ++unit)
        EXPECT_EQ(first.blended->recomputed[unit], unit == 1 || (unit >= 3 && unit < 8) || unit >= 16) << unit;
    // A later run lies in a page that was exchanged before. A fork still uses that page, so the run gets a copy of it.
    const Context fork = context.fork();
    const int32_t shared = context.chunks()[0].pages()[0];
    const std::vector<ChunkRun> later{{0, 8, 12}};
    const std::vector<PageCopy> again = context.exchange_pages(later, kPageSize);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].from, shared);
    EXPECT_EQ(again[0].to, context.chunks()[0].pages()[0]);
    EXPECT_EQ(fork.chunks()[0].pages()[0], shared);
    EXPECT_TRUE(context.chunks()[0].blended->recomputed[1]);
    EXPECT_TRUE(context.chunks()[0].blended->recomputed[2]);
    EXPECT_FALSE(fork.chunks()[0].blended->recomputed[2]);
}

}  // namespace
}  // namespace nanolith
