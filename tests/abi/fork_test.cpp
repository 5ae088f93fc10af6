// A process that forks: its child has the handles' memory and none of their threads. Calls there say so, freeing
// returns, an engine of the child's own works, and the parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "abi/abi_fixtures.h"
#include "nanolith/nanolith_ops.h"

namespace nanolith::test {
namespace {

// Runs `work` in a child, which gets a minute; false where it answered false, crashed or hung.
bool in_child(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(work() ? 0 : 1);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// In a child, where a failed EXPECT would not be seen.
bool refused(nl_status status, const char* name) {
    const std::string said = nl_last_error();
    const bool right = status == NL_ERROR_INVALID_ARGUMENT && said.find(name) == 0 &&
                       said.find("made before this process was forked") != std::string::npos;
    if (!right) std::fprintf(stderr, "%s: status %d, \"%s\"\n", name, status, said.c_str());
    return right;
}

bool draws(const TinyModel& model, const Tokens& prompt, const Tokens& expected) {
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), prompt);
    return decode(cache.get(), static_cast<int>(expected.size())) == expected && !testing::Test::HasFailure();
}

class ForkTest : public testing::Test {
  protected:
    TinyModel model;
    EngineHandle engine = make_engine(model);
    const Tokens prompt = some_tokens(40);
    CacheHandle cache = make_cache(engine.get());
    ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20, 5));
};

TEST_F(ForkTest, HandlesFromBeforeSaySoAndAreFreedAtOnce) {
    extend(cache.get(), prompt);
    nl_tokenizer* made = nullptr;
    NL_CHECK(nl_engine_tokenizer(engine.get(), &made));
    const TokenizerHandle tokenizer(made);
    EXPECT_TRUE(in_child([&] {
        int64_t value = 0;
        int32_t token = 0;
        size_t count = 0;
        nl_cache* caches[] = {cache.get()};
        nl_cache* more = nullptr;
        nl_chunk* again = nullptr;
        bool right = refused(nl_engine_query(engine.get(), NL_ENGINE_PAGES_FREE, &value), "engine") &&
                     refused(nl_cache_create(engine.get(), nullptr, nullptr, 0, &more), "engine") &&
                     refused(nl_cache_extend(cache.get(), prompt.data(), prompt.size()), "cache") &&
                     refused(nl_cache_query(cache.get(), NL_CACHE_TOKENS, &value), "cache") &&
                     refused(nl_cache_tokens(cache.get(), nullptr, 0, &count), "cache") &&
                     refused(nl_decode_step(caches, 1, &token), "caches[0]") &&
                     refused(nl_chunk_retain(chunk.get(), &again), "chunk") &&
                     refused(nl_engine_cancel(engine.get()), "engine");
        // A tokenizer has no threads.
        right = right && nl_tokenizer_query(tokenizer.get(), NL_TOKENIZER_VOCAB_SIZE, &value) == NL_OK;
        nl_cache_free(cache.release());
        nl_chunk_free(chunk.release());
        nl_engine_free(engine.release());
        return right;
    }));
    EXPECT_EQ(decode(cache.get(), 3).size(), 3U);
}

TEST_F(ForkTest, AChildHasAnEngineOfItsOwn) {
    const CacheHandle alone = make_cache(engine.get());
    extend(alone.get(), prompt);
    const Tokens expected = decode(alone.get(), 5);
    EXPECT_TRUE(in_child([&] { return draws(model, prompt, expected); }));
    EXPECT_TRUE(in_child([&] {
        engine.reset();  // of an engine whose handles are freed, as well
        return draws(model, prompt, expected);
    }));
    EXPECT_TRUE(draws(model, prompt, expected));
}

TEST_F(ForkTest, AGenerationThatRunsGoesOnInTheParent) {
    const CacheHandle alone = make_cache(engine.get());
    extend(alone.get(), prompt);
    const Tokens expected = decode(alone.get(), 200);
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, 200));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0));
    nl_generation* generation = nullptr;
    NL_CHECK(nl_generation_start(cache.get(), prompt.data(), prompt.size(), options.get(), &generation));
    Tokens drawn;
    int32_t end = NL_END_NONE;
    while (end == NL_END_NONE) {
        int32_t tokens[20];
        size_t count = 0;
        NL_CHECK(nl_generation_next(generation, -1, tokens, 20, &count, nullptr, 0, nullptr, &end));
        drawn.insert(drawn.end(), tokens, tokens + count);
        if (drawn.size() > 100 || end != NL_END_NONE) continue;
        EXPECT_TRUE(in_child([&] {
            const bool right =
                refused(nl_generation_next(generation, -1, tokens, 20, &count, nullptr, 0, nullptr, &end),
                        "generation") &&
                refused(nl_generation_cancel(generation), "generation");
            nl_generation_free(generation);
            nl_cache_free(cache.release());
            nl_engine_free(engine.release());
            return right && draws(model, prompt, {expected.begin(), expected.begin() + 5});
        }));
    }
    EXPECT_EQ(drawn, expected);
    nl_generation_free(generation);
}

TEST(ForkOpsTest, KernelsOfBeforeSaySo) {
    nl_ops* ops = nullptr;
    NL_CHECK(nl_ops_create("cpu", 3, &ops));
    NL_CHECK(nl_ops_set_threads(ops, 2));
    EXPECT_TRUE(in_child([&] {
        const bool right = refused(nl_ops_synchronize(ops), "ops");
        nl_ops_free(ops);
        return right;
    }));
    NL_CHECK(nl_ops_synchronize(ops));
    nl_ops_free(ops);
}

}  // namespace
}  // namespace nanolith::test
