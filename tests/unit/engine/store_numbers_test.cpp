// What an engine counts of its store, on a device whose speed is known.
#include "kv/store_numbers.h"

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

constexpr int32_t kChunk = 64;  // tokens: four pages
constexpr int64_t kSlow = 600;  // milliseconds that bringing a chunk takes, and computing one does not

FakeSettings with_host_memory(int32_t num_pages) {
    FakeSettings settings;
    settings.options.num_pages = num_pages;
    settings.options.page_size = 16;
    settings.options.host_bytes = 1 << 20;
    return settings;
}

std::shared_ptr<Chunk> prefilled(FakeEngine& engine, int32_t first) {
    auto made = engine->prefill({}, tokens_from(first, kChunk), NL_LEVEL_CONTEXT, {});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made->chunk);
}

void prefill_and_drop(FakeEngine& engine, int32_t first) {
    engine->release(prefilled(engine, first));
}

TEST(StoreNumbers, TimeSavedIsThatOfComputingLessThatOfBringing) {
    FakeEngine engine(with_host_memory(8));
    engine.record->row_microseconds = 1000;
    prefill_and_drop(engine, 1);
    EXPECT_EQ(engine->store_report(nullptr, false).saved_ms, 0);
    prefill_and_drop(engine, 1);
    EXPECT_GE(engine->store_report(nullptr, false).saved_ms, kChunk);  // a millisecond a token, or somewhat more
    prefill_and_drop(engine, 2);
    prefill_and_drop(engine, 3);
    EXPECT_EQ(engine->store_report(nullptr, false).counted.host_moves, 1);
    EXPECT_EQ(engine->store_report(nullptr, false).counted.device_moves, 0);
    engine.record->write_microseconds = kSlow * 1000;
    prefill_and_drop(engine, 1);
    const auto report = engine->store_report(nullptr, true);
    EXPECT_EQ(report.counted.host_hits, 1);
    EXPECT_EQ(report.counted.device_moves, 1);
    EXPECT_EQ(report.counted.tokens_reused, 2 * kChunk);
    EXPECT_GE(report.counted.seconds_bringing, 1e-3 * kSlow);
    EXPECT_LT(report.saved_ms, 0);
    EXPECT_EQ(report.device_levels[1].chunks, 2);
    EXPECT_EQ(report.device_levels[1].pages, 8);
    EXPECT_EQ(report.host_levels[1].chunks, 2);
    EXPECT_EQ(report.device_levels[0].chunks + report.device_levels[2].chunks, 0);
}

// A version of a chunk that exact composition made comes back when a later cache wants it.
TEST(StoreNumbers, CachesCountWhatTheyWaitedFor) {
    FakeEngine engine(with_host_memory(12));
    engine.record->row_microseconds = 1000;
    const std::vector<std::shared_ptr<Chunk>> chunks = {prefilled(engine, 1), prefilled(engine, 2)};
    const auto compose = [&] {
        auto made = engine->create_cache({}, {.composition = NL_COMPOSE_EXACT}, chunks);
        EXPECT_TRUE(made.ok()) << made.error().message;
        const auto facts = engine->facts(**made);
        engine->release(std::move(*made));
        return facts;
    };
    const auto first = compose();
    EXPECT_EQ(first.chunk_reused, kChunk);
    EXPECT_GE(first.saved_ms, kChunk);
    prefill_and_drop(engine, 3);  // in the pages of that version
    engine.record->write_microseconds = kSlow * 1000;
    const auto second = compose();
    EXPECT_EQ(second.computed, 0);
    EXPECT_EQ(second.chunk_reused, 2 * kChunk);
    EXPECT_LT(second.saved_ms, 0);
    const auto third = compose();
    EXPECT_EQ(third.chunk_reused, 2 * kChunk);
    EXPECT_GE(third.saved_ms, 2 * kChunk);
}

}  // namespace
}  // namespace nanolith::testing
