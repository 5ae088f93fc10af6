// Threads that hammer one engine, each with its own conversations over shared chunks. Whatever the others do, each
// must draw the tokens that it draws alone.
#include <atomic>
#include <map>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

constexpr int kKinds = 4;  // different conversations

// The documents of conversation `kind`, in its own order.
std::vector<Tokens> documents_of(int kind) {
    const Tokens documents[] = {some_tokens(20, 1), some_tokens(37, 2), some_tokens(16, 3)};
    return {documents[kind % 3], documents[(kind + 1) % 3]};
}

// One whole conversation; gives all the tokens it drew.
Tokens converse(nl_engine* engine, int kind) {
    const ChunkHandle system = make_chunk(engine, some_tokens(10, 9), 0);
    std::vector<ChunkHandle> documents;
    std::vector<const nl_chunk*> chunks = {system.get()};
    for (const Tokens& tokens : documents_of(kind)) {
        documents.push_back(make_chunk(engine, tokens));
        chunks.push_back(documents.back().get());
    }
    CacheHandle cache = make_cache(engine, chunks, kind % 2);
    documents.clear();  // the cache keeps them
    extend(cache.get(), some_tokens(5 + kind, kind));
    nl_cache* made = nullptr;
    EXPECT_EQ(nl_cache_fork(cache.get(), &made), NL_OK) << nl_last_error();
    const CacheHandle fork(made);
    Tokens drawn = decode(cache.get(), 6);
    extend(fork.get(), {7, 8});
    nl_cache* both[] = {fork.get(), cache.get()};
    for (int step = 0; step < 4; ++step) {
        int32_t tokens[2];
        EXPECT_EQ(nl_decode_step(both, 2, tokens), NL_OK) << nl_last_error();
        drawn.insert(drawn.end(), tokens, tokens + 2);
    }
    const auto length = static_cast<size_t>(fact(cache.get(), NL_CACHE_TOKENS));
    EXPECT_EQ(nl_cache_truncate(cache.get(), length - 5), NL_OK) << nl_last_error();
    EXPECT_EQ(logits_of(cache.get()).size(), 400U);
    drawn.push_back(decode(cache.get()));
    fact(engine, NL_ENGINE_PAGES_FREE);
    fact(system.get(), NL_CHUNK_USERS);
    return drawn;
}

void hammer(int num_threads, int rounds) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model, {.num_pages = 256});
    std::map<int, Tokens> expected;
    for (int kind = 0; kind < kKinds; ++kind) expected[kind] = converse(engine.get(), kind);

    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < num_threads; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < rounds; ++round) {
                const int kind = (i + round) % kKinds;
                if (converse(engine.get(), kind) != expected.at(kind)) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(spare_pages(engine.get()), 256);
}

TEST(Threads, TwoOnOneEngine) {
    hammer(2, 12);
}

TEST(Threads, EightOnOneEngine) {
    hammer(8, 4);
}

// Calls on one cache take turns: whatever their order, every token arrives.
TEST(Threads, EightOnOneCache) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(3));
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 6; ++round) {
                if (i % 2 == 0) extend(cache.get(), {5, 6});
                if (i % 2 == 1) decode(cache.get());
                logits_of(cache.get());
                nl_cache* fork = nullptr;
                EXPECT_EQ(nl_cache_fork(cache.get(), &fork), NL_OK) << nl_last_error();
                nl_cache_free(fork);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 3 + 4 * 6 * 2 + 4 * 6);
}

// The last handles go from many threads at once, the engine's among them.
TEST(Threads, FreeingFromEverywhere) {
    const TinyModel model;
    for (int round = 0; round < 10; ++round) {
        EngineHandle engine = make_engine(model);
        ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
        std::vector<CacheHandle> caches;
        for (int i = 0; i < 6; ++i) caches.push_back(make_cache(engine.get(), {chunk.get()}));
        std::vector<std::thread> threads;
        for (auto& cache : caches) {
            threads.emplace_back([&] {
                decode(cache.get());
                cache.reset();
            });
        }
        threads.emplace_back([&] { engine.reset(); });
        threads.emplace_back([&] { chunk.reset(); });
        for (auto& thread : threads) thread.join();
    }
}

// Threads that run short of pages get an error or an answer, and the pages come back.
TEST(Threads, ShortOfPages) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model, {.num_pages = 12});
    std::atomic<int> answered{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 10; ++round) {
                const Tokens tokens = some_tokens(40, i * 10 + round);
                nl_chunk* chunk = nullptr;
                const nl_status status = nl_chunk_prefill(engine.get(), tokens.data(), 40, 1, nullptr, 0, &chunk);
                EXPECT_TRUE(status == NL_OK || status == NL_ERROR_OUT_OF_PAGES) << nl_last_error();
                if (status == NL_OK) ++answered;
                nl_chunk_free(chunk);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_GT(answered, 0);
    EXPECT_EQ(spare_pages(engine.get()), 12);
}

}  // namespace
}  // namespace nanolith::test
