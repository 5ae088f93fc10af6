// Long runs that must not grow: pages return to where they were, and so does the process's memory. A program of its
// own, so that other tests' memory does not blur the figures.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

// Bytes in use on the heap once the engine's thread has nothing left to do: the least within some milliseconds.
size_t heap_bytes() {
    size_t least = SIZE_MAX;
    for (int look = 0; look < 20; ++look) {
        const struct mallinfo2 info = mallinfo2();
        least = std::min(least, info.uordblks + info.hblkhd);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return least;
}

// Runs `body` a few times, until what it keeps for later runs is there, then `rounds` times, and expects the heap to
// grow by at most `slack` bytes. Tries again when it grows by more: a leak of one small object a round exceeds `slack`
// in every try, while threads' lists of free blocks, which the C library keeps, grow now and then and stop.
void expect_flat(int rounds, size_t slack, const std::function<void(int)>& body) {
    constexpr int kWarmUp = 20;
    constexpr int kTries = 3;
    for (int i = 0; i < kWarmUp; ++i) body(i);
    std::string grown;
    for (int attempt = 0; attempt < kTries; ++attempt) {
        const size_t before = heap_bytes();
        for (int i = 0; i < rounds; ++i) body(i);
        const size_t after = heap_bytes();
        if (after <= before + slack) return;
        grown += " " + std::to_string((after - before) / static_cast<size_t>(rounds));
    }
    ADD_FAILURE() << "grew, each time, by so many bytes a round:" << grown;
}

TEST(Growth, AThousandDecodeSteps) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(100));
    const int64_t spare = spare_pages(engine.get());
    expect_flat(10, 2000, [&](int) {
        decode(cache.get(), 100);
        NL_CHECK(nl_cache_truncate(cache.get(), 100));
    });
    EXPECT_EQ(spare_pages(engine.get()), spare);
}

TEST(Growth, TwoHundredChunksAndCaches) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    expect_flat(200, 8000, [&](int round) {
        const ChunkHandle system = make_chunk(engine.get(), some_tokens(20, 1), 0);
        const ChunkHandle document = make_chunk(engine.get(), some_tokens(30, 2 + round % 5));
        const CacheHandle cache = make_cache(engine.get(), {system.get(), document.get()}, round % 2);
        extend(cache.get(), some_tokens(9));
        nl_cache* made = nullptr;
        NL_CHECK(nl_cache_fork(cache.get(), &made));
        const CacheHandle fork(made);
        decode(cache.get(), 3);
        decode(fork.get(), 2);
    });
    EXPECT_EQ(spare_pages(engine.get()), 64);
}

// Chunks that are all different, so that the store must evict.
TEST(Growth, EvictionKeepsNothing) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model, {.num_pages = 8});
    int start = 0;
    for (int i = 0; i < 20; ++i) make_chunk(engine.get(), some_tokens(30, start++));
    expect_flat(200, 20000, [&](int) { make_chunk(engine.get(), some_tokens(30, start++)); });
    EXPECT_EQ(spare_pages(engine.get()), 8);
}

TEST(Growth, FailuresKeepNothing) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model, {.num_pages = 4, .max_context = 200});
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(40));
    const Tokens many = some_tokens(100);
    // What one thread allocates and another frees lies in that thread's list of free blocks for a while: some
    // kilobytes.
    expect_flat(1000, 8000, [&](int) {
        EXPECT_EQ(nl_cache_extend(cache.get(), many.data(), 100), NL_ERROR_OUT_OF_PAGES);
        EXPECT_EQ(nl_cache_extend(cache.get(), some_tokens(161).data(), 161), NL_ERROR_CONTEXT_FULL);
        nl_chunk* chunk = nullptr;
        EXPECT_EQ(nl_chunk_prefill(engine.get(), many.data(), 100, 1, nullptr, 0, &chunk), NL_ERROR_OUT_OF_PAGES);
    });
    EXPECT_EQ(tokens_of(cache.get()), some_tokens(40));
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_PAGES_FREE), 1);
    decode(cache.get(), 20);
}

TEST(Growth, TwentyEngines) {
    const TinyModel model;
    expect_flat(20, 20000, [&](int) {
        const EngineHandle engine = make_engine(model);
        const CacheHandle cache = make_cache(engine.get());
        extend(cache.get(), some_tokens(20));
        decode(cache.get(), 2);
    });
}

TEST(Growth, EnginesThatCannotBeMade) {
    const TinyModel model;
    const std::string path = model.path() + "/nothing";
    expect_flat(200, 2000, [&](int) {
        nl_engine* engine = nullptr;
        EXPECT_EQ(nl_engine_create(path.data(), path.size(), nullptr, &engine), NL_ERROR_NOT_FOUND);
    });
}

}  // namespace
}  // namespace nanolith::test
