// Threads that hammer one engine, each with its own conversations over shared chunks. Whatever the others do, each
// must draw the tokens that it draws alone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
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

// How long the threads below go on: longer by hand (NANOLITH_TEST_SECONDS) than in every run of the tests.
std::chrono::seconds stress_time() {
    const char* const told = std::getenv("NANOLITH_TEST_SECONDS");
    return std::chrono::seconds(told != nullptr ? std::atoi(told) : 4);
}

// Generations that are started, read slowly, cancelled and freed by 32 threads: whatever becomes of the others, each
// gives the tokens that it gives alone, or a beginning of them where it was cancelled.
TEST(Threads, GenerationsFromEverywhere) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model, {.num_pages = 512});
    constexpr int kTokens = 20;
    std::map<int, Tokens> expected;
    for (int kind = 0; kind < kKinds; ++kind) {
        const CacheHandle cache = make_cache(engine.get());
        extend(cache.get(), some_tokens(5 + 20 * kind, kind));
        expected[kind] = decode(cache.get(), kTokens);
    }
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    ASSERT_EQ(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, kTokens), NL_OK);
    ASSERT_EQ(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0), NL_OK);
    ASSERT_EQ(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, 3), NL_OK);

    const auto until = std::chrono::steady_clock::now() + stress_time();
    std::atomic<int> wrong{0};
    std::atomic<int> whole{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 32; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; std::chrono::steady_clock::now() < until; ++round) {
                const int kind = (i + round) % kKinds;
                const Tokens prompt = some_tokens(5 + 20 * kind, kind);
                CacheHandle cache = make_cache(engine.get());
                nl_generation* made = nullptr;
                if (nl_generation_start(cache.get(), prompt.data(), prompt.size(), options.get(), &made) != NL_OK) {
                    ++wrong;
                    continue;
                }
                const Handle<nl_generation, nl_generation_free> generation(made);
                if (round % 5 == 1) cache.reset();
                if (round % 7 == 2) continue;  // freed while it runs
                Tokens drawn;
                int32_t end = NL_END_NONE;
                while (end == NL_END_NONE) {
                    int32_t tokens[4];
                    size_t count = 0;
                    const nl_status status = nl_generation_next(generation.get(), round % 3 == 0 ? 0 : -1, tokens, 4,
                                                                &count, nullptr, 0, nullptr, &end);
                    if (status == NL_ERROR_TIMEOUT) std::this_thread::yield();
                    if (status != NL_OK && status != NL_ERROR_TIMEOUT) ++wrong;
                    drawn.insert(drawn.end(), tokens, tokens + count);
                    if (round % 11 == 3 && drawn.size() > 4) nl_generation_cancel(generation.get());
                    if (round % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
                }
                const Tokens& all = expected.at(kind);
                const bool right = drawn.size() <= all.size() && std::equal(drawn.begin(), drawn.end(), all.begin());
                if (!right || (end == NL_END_LENGTH && drawn.size() != all.size())) ++wrong;
                if (end == NL_END_LENGTH) ++whole;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(whole, 32);
    // A step in flight keeps what it reads until it is collected.
    for (int i = 0; i < 2000 && spare_pages(engine.get()) != 512; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(spare_pages(engine.get()), 512);
}

// The engine's handle goes while generations run, which keep it.
TEST(Threads, TheEngineGoesWhileGenerationsRun) {
    const TinyModel model;
    for (int round = 0; round < 10; ++round) {
        EngineHandle engine = make_engine(model);
        std::vector<Handle<nl_generation, nl_generation_free>> generations;
        for (int i = 0; i < 6; ++i) {
            const CacheHandle cache = make_cache(engine.get());
            const Tokens prompt = some_tokens(30, i);
            nl_generation* made = nullptr;
            ASSERT_EQ(nl_generation_start(cache.get(), prompt.data(), prompt.size(), nullptr, &made), NL_OK);
            generations.emplace_back(made);
        }
        std::vector<std::thread> threads;
        threads.emplace_back([&] { engine.reset(); });
        for (auto& generation : generations) threads.emplace_back([&] { generation.reset(); });
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
