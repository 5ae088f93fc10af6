// Which chunks go first when pages run short: priorities, pins, and what a chunk costs to compute again.
#include "abi/store_fixtures.h"

namespace nanolith::test {
namespace {

class PriorityTest : public ::testing::Test {
  protected:
    static constexpr int64_t kPages = 16;

    void set(const ChunkHandle& chunk, int32_t priority) {
        EXPECT_EQ(nl_chunk_set_priority(chunk.get(), priority), NL_OK) << nl_last_error();
    }
    // Takes `pages` pages for a moment.
    void press(int64_t pages) { make_chunk(engine.get(), some_tokens(static_cast<size_t>(pages) * 16, 99), 2); }
    bool has(int32_t text, const std::vector<const nl_chunk*>& before = {}) {
        return fact(make_chunk(engine.get(), some_tokens(32, text), 1, before).get(), NL_CHUNK_TOKENS_COMPUTED) == 0;
    }

    const TinyModel model;
    const EngineHandle engine = make_store_engine(model.path(), {.folder = {}, .num_pages = kPages});
};

TEST_F(PriorityTest, IsAFactAndChecked) {
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
    EXPECT_EQ(fact(chunk.get(), NL_CHUNK_PRIORITY), NL_PRIORITY_NORMAL);
    for (const int32_t priority : std::initializer_list<int32_t>{NL_PRIORITY_LOWEST, NL_PRIORITY_PINNED, 100, 7}) {
        set(chunk, priority);
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_PRIORITY), priority);
    }
    EXPECT_INVALID("chunk", nl_chunk_set_priority(nullptr, 1));
    for (const int32_t wrong : {-1, 102, INT32_MIN, INT32_MAX})
        EXPECT_INVALID("priority is " + std::to_string(wrong), nl_chunk_set_priority(chunk.get(), wrong));
    EXPECT_EQ(fact(chunk.get(), NL_CHUNK_PRIORITY), 7);
}

TEST_F(PriorityTest, TheLowestGoFirst) {
    const std::pair<int32_t, int32_t> texts[] = {{1, 80}, {2, 20}, {3, NL_PRIORITY_NORMAL}};
    for (const auto& [text, priority] : texts) set(make_chunk(engine.get(), some_tokens(32, text)), priority);
    press(kPages - 4);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_EVICTIONS), 1);
    press(kPages - 2);
    EXPECT_TRUE(has(1));
    EXPECT_FALSE(has(2));
}

TEST_F(PriorityTest, PinnedChunksStay) {
    set(make_chunk(engine.get(), some_tokens(32, 1), 2), NL_PRIORITY_PINNED);  // of the level that goes first
    make_chunk(engine.get(), some_tokens(32, 2), 0);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_PAGES_EVICTABLE), 2);
    const Tokens most = some_tokens(kPages * 16, 3);
    nl_chunk* chunk = nullptr;
    EXPECT_EQ(nl_chunk_prefill(engine.get(), most.data(), most.size(), 1, nullptr, 0, &chunk), NL_ERROR_OUT_OF_PAGES);
    press(kPages - 2);
    EXPECT_FALSE(has(2));
    const ChunkHandle pinned = make_chunk(engine.get(), some_tokens(32, 1), 2);
    EXPECT_EQ(fact(pinned.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(pinned.get(), NL_CHUNK_PRIORITY), NL_PRIORITY_PINNED);
    set(pinned, NL_PRIORITY_NORMAL);
}

// Also when it changes between two stays in the host's memory.
TEST_F(PriorityTest, ComesBackFromTheHostsMemory) {
    const EngineHandle tiered =
        make_store_engine(model.path(), {.folder = {}, .num_pages = kPages, .host_bytes = int64_t{1} << 20});
    const Tokens text = some_tokens(32, 1);
    const auto push_down = [&] { make_chunk(tiered.get(), some_tokens(kPages * 16, 99), 2); };
    for (const int32_t priority : {80, 20}) {
        set(make_chunk(tiered.get(), text), priority);
        push_down();
        const ChunkHandle back = make_chunk(tiered.get(), text);
        EXPECT_EQ(fact(back.get(), NL_CHUNK_PRIORITY), priority);
        EXPECT_NE(fact(back.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_DEVICE);
    }
}

TEST_F(PriorityTest, WhatCostsMoreIsKeptLonger) {
    const ChunkHandle before = make_chunk(engine.get(), some_tokens(64, 1), 0);
    make_chunk(engine.get(), some_tokens(32, 2), 1, {before.get()});  // each of its tokens sees 64 more
    make_chunk(engine.get(), some_tokens(32, 3), 1);                  // used later, and cheaper
    press(kPages - 4 - 2);
    EXPECT_TRUE(has(2, {before.get()}));
    EXPECT_FALSE(has(3));
}

}  // namespace
}  // namespace nanolith::test
