// Handles freed in odd orders: what a living handle needs stays alive.
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

TEST(Lifetime, TheEngineGoesFirst) {
    const TinyModel model;
    EngineHandle engine = make_engine(model);
    ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
    CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    nl_tokenizer* made = nullptr;
    NL_CHECK(nl_engine_tokenizer(engine.get(), &made));
    TokenizerHandle tokenizer(made);
    const CacheHandle expected = make_cache(engine.get(), {chunk.get()});
    const Tokens tokens = decode(expected.get(), 5);

    engine.reset();
    EXPECT_EQ(decode(cache.get(), 5), tokens);
    EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS), 20);
    chunk.reset();
    decode(cache.get(), 5);
    nl_cache* forked = nullptr;
    NL_CHECK(nl_cache_fork(cache.get(), &forked));
    const CacheHandle fork(forked);
    cache.reset();
    decode(fork.get(), 5);
    nl_text_stream* stream_made = nullptr;
    NL_CHECK(nl_text_stream_create(tokenizer.get(), &stream_made));
    const TextStreamHandle stream(stream_made);
    tokenizer.reset();
    char text[32];
    size_t length = 0;
    NL_CHECK(nl_text_stream_push(stream.get(), 300, text, sizeof text, &length));
}

TEST(Lifetime, AChunkOutlivesTheOthers) {
    const TinyModel model;
    EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
    CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    engine.reset();
    cache.reset();
    nl_chunk* again = nullptr;
    NL_CHECK(nl_chunk_retain(chunk.get(), &again));
    const ChunkHandle second(again);
    EXPECT_EQ(fact(second.get(), NL_CHUNK_USERS), 2);
}

TEST(Lifetime, EveryOrderGivesThePagesBack) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    for (int order = 0; order < 24; ++order) {
        SCOPED_TRACE(order);
        ChunkHandle system = make_chunk(engine.get(), some_tokens(20, 1), 0);
        ChunkHandle document = make_chunk(engine.get(), some_tokens(20, 2), 1, {system.get()});
        CacheHandle cache = make_cache(engine.get(), {system.get(), document.get()});
        extend(cache.get(), some_tokens(20));
        nl_cache* made = nullptr;
        NL_CHECK(nl_cache_fork(cache.get(), &made));
        CacheHandle fork(made);
        decode(fork.get(), 3);
        std::vector<int> left = {0, 1, 2, 3};
        for (int rest = order, choices = 4; choices > 0; rest /= choices, --choices) {
            const auto chosen = left.begin() + rest % choices;
            if (*chosen == 0) system.reset();
            if (*chosen == 1) document.reset();
            if (*chosen == 2) cache.reset();
            if (*chosen == 3) fork.reset();
            left.erase(chosen);
            if (cache) decode(cache.get());
        }
        EXPECT_EQ(spare_pages(engine.get()), 64);
    }
}

TEST(Lifetime, AnyThreadMayFree) {
    const TinyModel model;
    EngineHandle engine = make_engine(model);
    ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
    CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    std::thread([&] { engine.reset(); }).join();
    std::thread([&] { chunk.reset(); }).join();
    decode(cache.get());
    std::thread([&] { cache.reset(); }).join();
}

TEST(Lifetime, TwoEnginesShareNothing) {
    const TinyModel model;
    TinyModelShape shape;
    shape.seed = 2;
    const TinyModel other_model(shape);
    EngineHandle first = make_engine(model);
    const EngineHandle second = make_engine(other_model);
    const CacheHandle first_cache = make_cache(first.get());
    const CacheHandle second_cache = make_cache(second.get());
    extend(first_cache.get(), some_tokens(9));
    extend(second_cache.get(), some_tokens(9));
    first.reset();
    EXPECT_NE(decode(first_cache.get(), 10), decode(second_cache.get(), 10));
}

}  // namespace
}  // namespace nanolith::test
