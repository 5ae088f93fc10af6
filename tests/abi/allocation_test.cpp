// Host memory may run out at any allocation of any call. This program makes each allocation of the main calls
// fail in turn: every time the call must report it, change nothing, and work when it is made again. Only the library's
// own allocations fail, not those inside oneDNN and libsentencepiece, which end the process where theirs do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "abi/abi_fixtures.h"
#include "support/failing_allocations.h"

namespace nanolith::test {
namespace {

class AllocationTest : public testing::Test {
  protected:
    TinyModel model;
    EngineHandle engine = make_engine(model, {.num_pages = 256});
};

TEST_F(AllocationTest, ExtendLosesNothing) {
    const CacheHandle expected = make_cache(engine.get());
    extend(expected.get(), some_tokens(50, 1));
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(50, 1));
    const int64_t spare = spare_pages(engine.get());
    const Tokens more = some_tokens(40, 2);
    fail_each_allocation([&] { return nl_cache_extend(cache.get(), more.data(), more.size()); },
                         [&] {
                             EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 50);
                             EXPECT_EQ(spare_pages(engine.get()), spare);
                         });
    extend(expected.get(), more);
    EXPECT_EQ(decode(cache.get(), 5), decode(expected.get(), 5));
}

// Its first new row is written to a copy of a page that the other cache has too.
TEST_F(AllocationTest, AForkIsExtendedOrUnchanged) {
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(25, 1));
    nl_cache* forked = nullptr;
    NL_CHECK(nl_cache_fork(cache.get(), &forked));
    const CacheHandle fork(forked);
    const Tokens more = some_tokens(90, 2);
    fail_each_allocation([&] { return nl_cache_extend(fork.get(), more.data(), more.size()); },
                         [&] { EXPECT_EQ(fact(fork.get(), NL_CACHE_TOKENS), 25); });
    extend(cache.get(), more);
    EXPECT_EQ(decode(fork.get(), 5), decode(cache.get(), 5));
}

TEST_F(AllocationTest, ABlendIsWholeOrNothing) {
    const ChunkHandle a = make_chunk(engine.get(), some_tokens(60, 1));
    const ChunkHandle b = make_chunk(engine.get(), some_tokens(60, 2));
    const CacheHandle cache = make_blend(engine.get(), {a.get(), b.get()}, 0.3);
    const Tokens question = some_tokens(20, 9);
    fail_each_allocation([&] { return nl_cache_extend(cache.get(), question.data(), question.size()); },
                         [&] {
                             EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 120);
                             EXPECT_EQ(fact(cache.get(), NL_CACHE_PRIVATE_PAGES), 0);
                             EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_BLENDED), 0);
                             EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_REUSED), 120);
                         });
    EXPECT_GT(fact(cache.get(), NL_CACHE_PRIVATE_PAGES), 2);  // the engine may have kept what a failed call blended
    const EngineHandle other = make_engine(model, {.num_pages = 256});
    const ChunkHandle same_a = make_chunk(other.get(), some_tokens(60, 1));
    const ChunkHandle same_b = make_chunk(other.get(), some_tokens(60, 2));
    const CacheHandle expected = make_blend(other.get(), {same_a.get(), same_b.get()}, 0.3);
    extend(expected.get(), question);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_PRIVATE_PAGES), fact(expected.get(), NL_CACHE_PRIVATE_PAGES));
    EXPECT_EQ(decode(cache.get(), 5), decode(expected.get(), 5));
}

TEST_F(AllocationTest, DecodeAdvancesAllOrNone) {
    const CacheHandle a = make_cache(engine.get());
    const CacheHandle b = make_cache(engine.get());
    const CacheHandle expected = make_cache(engine.get());
    extend(a.get(), some_tokens(16, 1));
    extend(b.get(), some_tokens(31, 2));
    extend(expected.get(), some_tokens(31, 2));
    nl_cache* batch[] = {a.get(), b.get()};
    Tokens drawn(2);
    NL_CHECK(nl_decode_step(batch, 2, drawn.data()));
    fail_each_allocation([&] { return nl_decode_step(batch, 2, drawn.data()); },
                         [&] {
                             EXPECT_EQ(fact(a.get(), NL_CACHE_TOKENS), 17);
                             EXPECT_EQ(fact(b.get(), NL_CACHE_TOKENS), 32);
                         });
    EXPECT_EQ(fact(a.get(), NL_CACHE_TOKENS), 18);
    EXPECT_EQ(decode(expected.get(), 2).back(), drawn[1]);
}

// From its start to its end: in the call, in the step loop and in reading.
class GenerationAllocationTest : public AllocationTest {
  protected:
    // What a generation upon the cache draws is read to `drawn`, until something fails.
    nl_status generate(nl_cache* cache) {
        drawn.clear();
        nl_generation* generation = nullptr;
        nl_status status = nl_generation_start(cache, prompt.data(), prompt.size(), options.get(), &generation);
        int32_t end = NL_END_NONE;
        while (status == NL_OK && end == NL_END_NONE) {
            int32_t tokens[3];
            size_t count = 0;
            char text[16];
            size_t length = 0;
            status = nl_generation_next(generation, -1, tokens, 3, &count, text, sizeof text, &length, &end);
            for (size_t i = 0; i < count && drawn.size() < drawn.capacity(); ++i) drawn.push_back(tokens[i]);
        }
        nl_generation_free(generation);
        return status;
    }
    void gives_all_its_tokens_or_fails() {
        drawn.reserve(64);
        const CacheHandle alone = make_cache(engine.get());
        NL_CHECK(generate(alone.get()));
        const Tokens expected = drawn;
        const CacheHandle cache = make_cache(engine.get());
        fail_each_allocation(
            [&] { return generate(cache.get()); },
            [&] {
                EXPECT_TRUE(drawn.size() <= expected.size() &&
                            std::equal(drawn.begin(), drawn.end(), expected.begin()));
                // The cache keeps the tokens drawn before the failure. The next try needs it empty.
                Tokens kept = tokens_of(cache.get());
                kept.erase(kept.begin(), kept.begin() + std::min(kept.size(), prompt.size()));
                EXPECT_TRUE(drawn.size() <= kept.size() && std::equal(drawn.begin(), drawn.end(), kept.begin()));
                nl_status emptied = NL_ERROR_BUSY;  // until the generation that was freed has ended
                while (emptied == NL_ERROR_BUSY) emptied = nl_cache_truncate(cache.get(), 0);
                EXPECT_EQ(emptied, NL_OK) << nl_last_error();
            });
        EXPECT_EQ(drawn, expected);
    }

    const Tokens prompt = some_tokens(40, 4);
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    Tokens drawn;
};

TEST_F(GenerationAllocationTest, OfAnyTokens) {
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, 8));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0));
    NL_CHECK(nl_options_set_text(options.get(), NL_OPTION_STOP_TEXT, "never said", 10));
    gives_all_its_tokens_or_fails();
}

TEST_F(GenerationAllocationTest, OfConstrainedTextWithJumps) {
    const std::string regex = "[a-z]{2}, the number is [0-9]{2}\\.";
    NL_CHECK(nl_options_set_text(options.get(), NL_OPTION_REGEX, regex.data(), regex.size()));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_JUMP_AHEAD, 1));
    gives_all_its_tokens_or_fails();
    EXPECT_GT(drawn.size(), 5U);
}

TEST_F(GenerationAllocationTest, WithLogprobsAndACallback) {
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, 6));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_LOGPROBS, 1));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_TOP_LOGPROBS, 3));
    const auto prefer_a_token = [](void*, const int32_t*, size_t num_tokens, float* logits, size_t) -> int32_t {
        logits[num_tokens] += 100;
        return 0;
    };
    NL_CHECK(nl_options_set_logits(options.get(), prefer_a_token, nullptr));
    gives_all_its_tokens_or_fails();
    EXPECT_EQ(drawn, (Tokens{40, 41, 42, 43, 44, 45}));
}

// While a generation follows the beginning of its constrained text, another call may change its cache: here at each
// allocation of nl_generation_start in turn. Where that call need not wait for it, the generation is refused, and the
// cache is as the call left it.
TEST_F(AllocationTest, ACacheThatChangesWhileAGenerationBeginsIsBusy) {
    const Tokens text = encode(engine.get(), "abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, 1));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_CONSTRAINED_TOKENS, static_cast<int64_t>(text.size()) - 4));
    int refused = 0;
    bool called = true;
    for (int64_t before = 0; called; ++before) {
        SCOPED_TRACE(before);
        ASSERT_LT(before, 10'000);
        // Another one each time: what following a text has found out is remembered.
        const std::string regex = "[a-z]+|" + std::to_string(before);
        NL_CHECK(nl_options_set_text(options.get(), NL_OPTION_REGEX, regex.data(), regex.size()));
        const CacheHandle cache = make_cache(engine.get());
        extend(cache.get(), text);
        enum { waits, goes, done, never };
        std::atomic<int> state = waits;
        nl_status truncated = NL_OK;
        std::thread other([&] {
            state.wait(waits);
            if (state == goes) truncated = nl_cache_truncate(cache.get(), text.size() - 1);
            state = done;
        });
        const std::function<void()> let_it_go = [&] {
            state = goes;
            state.notify_one();
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
            while (state != done && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        };
        meanwhile = &let_it_go;
        allocations_before = before;
        nl_generation* made = nullptr;
        const nl_status started = nl_generation_start(cache.get(), nullptr, 0, options.get(), &made);
        called = allocations_before < 0;
        allocations_before = -1;
        int still = waits;
        if (state.compare_exchange_strong(still, never)) state.notify_one();
        const std::string said = started == NL_OK ? "" : nl_last_error();
        other.join();
        const GenerationHandle generation(made);
        if (started == NL_OK) continue;
        ++refused;
        EXPECT_EQ(started, NL_ERROR_BUSY) << said;
        EXPECT_NE(said.find("the cache's tokens changed while the generation began"), std::string::npos) << said;
        EXPECT_EQ(made, nullptr);
        EXPECT_EQ(truncated, NL_OK);
        EXPECT_EQ(tokens_of(cache.get()), Tokens(text.begin(), text.end() - 1));
    }
    EXPECT_GT(refused, 0);
}

TEST_F(AllocationTest, PrefillLeavesNoHalfChunk) {
    const Tokens tokens = some_tokens(40, 3);
    const int64_t spare = spare_pages(engine.get());
    nl_chunk* made = nullptr;
    fail_each_allocation(
        [&] { return nl_chunk_prefill(engine.get(), tokens.data(), tokens.size(), 1, nullptr, 0, &made); },
        [&] {
            EXPECT_EQ(made, nullptr);
            EXPECT_EQ(spare_pages(engine.get()), spare);
        });
    const ChunkHandle chunk(made);
    const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    const CacheHandle expected = make_cache(engine.get());
    extend(expected.get(), tokens);
    EXPECT_EQ(decode(cache.get(), 5), decode(expected.get(), 5));
}

TEST_F(AllocationTest, ScoresAndStatesAreWholeOrNothing) {
    const CacheHandle cache = make_cache(engine.get());
    const CacheHandle expected = make_cache(engine.get());
    extend(cache.get(), some_tokens(20, 1));
    extend(expected.get(), some_tokens(20, 1));
    const Tokens more = some_tokens(30, 2);
    const auto unchanged = [&] { EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 20); };
    std::vector<float> vectors(32);
    size_t count = 0;
    fail_each_allocation(
        [&] {
            return nl_cache_embed(cache.get(), more.data(), more.size(), NL_POOLING_MEAN, 0, vectors.data(),
                                  vectors.size(), &count);
        },
        unchanged);
    NL_CHECK(nl_cache_truncate(cache.get(), 20));
    std::vector<float> logprobs(more.size());
    fail_each_allocation(
        [&] { return nl_cache_score(cache.get(), more.data(), more.size(), logprobs.data(), logprobs.size(), &count); },
        unchanged);
    std::vector<float> scored(more.size());
    NL_CHECK(nl_cache_score(expected.get(), more.data(), more.size(), scored.data(), scored.size(), &count));
    // The first tokens of the two were computed in steps of other sizes, which round differently.
    for (size_t i = 0; i < scored.size(); ++i) EXPECT_NEAR(logprobs[i], scored[i], 1e-4F) << i;
    NL_CHECK(nl_cache_truncate(cache.get(), 20));
    float of_candidates[2];
    fail_each_allocation(
        [&] {
            const int32_t candidates[] = {7, 8};
            return nl_cache_score_next(cache.get(), more.data(), more.size(), candidates, 2, of_candidates, 2, &count);
        },
        unchanged);
    EXPECT_EQ(decode(cache.get(), 3), decode(expected.get(), 3));
}

TEST_F(AllocationTest, FilesAreWholeOrNothing) {
    const TempFolder folder;
    const std::string saved_chunk = folder.file("chunk");
    const std::string saved_cache = folder.file("cache");
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(60, 1));
    const CacheHandle cache = make_blend(engine.get(), {chunk.get()}, 0.4);
    extend(cache.get(), some_tokens(30, 2));
    const auto no_file = [&] { EXPECT_TRUE(std::filesystem::is_empty(folder.path())); };
    fail_each_allocation([&] { return nl_chunk_save(chunk.get(), saved_chunk.data(), saved_chunk.size()); }, no_file);
    std::filesystem::remove(saved_chunk);
    fail_each_allocation([&] { return nl_cache_save(cache.get(), saved_cache.data(), saved_cache.size()); }, no_file);
    NL_CHECK(nl_chunk_save(chunk.get(), saved_chunk.data(), saved_chunk.size()));

    const EngineHandle other = make_engine(model, {.num_pages = 256});
    const int64_t spare = spare_pages(other.get());
    const auto unchanged = [&] { EXPECT_EQ(spare_pages(other.get()), spare); };
    nl_chunk* loaded_chunk = nullptr;
    fail_each_allocation(
        [&] { return nl_chunk_load(other.get(), saved_chunk.data(), saved_chunk.size(), &loaded_chunk); }, unchanged);
    const ChunkHandle second_chunk(loaded_chunk);
    EXPECT_EQ(fact(second_chunk.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    nl_cache* loaded = nullptr;
    fail_each_allocation([&] { return nl_cache_load(other.get(), saved_cache.data(), saved_cache.size(), &loaded); },
                         [&] { EXPECT_EQ(loaded, nullptr); });
    const CacheHandle second(loaded);
    EXPECT_EQ(decode(second.get(), 5), decode(cache.get(), 5));
}

TEST_F(AllocationTest, CreateAndForkLeaveNoHalfCache) {
    const ChunkHandle a = make_chunk(engine.get(), some_tokens(20, 1));
    const ChunkHandle b = make_chunk(engine.get(), some_tokens(20, 2));
    const int64_t users = fact(a.get(), NL_CHUNK_USERS);
    const nl_chunk* chunks[] = {a.get(), b.get()};
    nl_cache* made = nullptr;
    fail_each_allocation([&] { return nl_cache_create(engine.get(), nullptr, chunks, 2, &made); },
                         [&] { EXPECT_EQ(fact(a.get(), NL_CHUNK_USERS), users); });
    const CacheHandle cache(made);
    extend(cache.get(), some_tokens(5));
    nl_cache* forked = nullptr;
    const int64_t spare = spare_pages(engine.get());
    fail_each_allocation([&] { return nl_cache_fork(cache.get(), &forked); },
                         [&] { EXPECT_EQ(spare_pages(engine.get()), spare); });
    const CacheHandle fork(forked);
    EXPECT_EQ(decode(fork.get(), 5), decode(cache.get(), 5));
}

TEST_F(AllocationTest, EngineCreationIsWholeOrNothing) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    NL_CHECK(set_device(options.get(), "cpu"));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, 16));
    nl_engine* created = nullptr;
    fail_each_allocation(
        [&] { return nl_engine_create(model.path().data(), model.path().size(), options.get(), &created); },
        [&] { EXPECT_EQ(created, nullptr); });
    const EngineHandle second(created);
    EXPECT_GT(fact(second.get(), NL_ENGINE_VOCAB_SIZE), 0);
}

// The first error of a thread, when there is no memory left to say it with.
TEST_F(AllocationTest, AThreadsFirstErrorTakesNoMemory) {
    nl_status status = NL_OK;
    char said[64] = "";
    std::thread([&] {
        nl_options* options = nullptr;
        allocations_left = 0;
        status = nl_options_create(NL_OPTIONS_ENGINE, &options);
        allocations_left = -1;
        std::snprintf(said, sizeof said, "%s", nl_last_error());
    }).join();
    EXPECT_EQ(status, NL_ERROR_OUT_OF_MEMORY);
    EXPECT_STREQ(said, "out of memory");
}

TEST_F(AllocationTest, OptionsAreWholeOrNothing) {
    nl_options* made = nullptr;
    fail_each_allocation([&] { return nl_options_create(NL_OPTIONS_GENERATION, &made); },
                         [&] { EXPECT_EQ(made, nullptr); });
    const OptionsHandle options(made);
    const std::string stop(100, 'x');
    const auto count = [&](int32_t option) {
        size_t elements = 0;
        EXPECT_EQ(nl_options_get_count(options.get(), option, &elements), NL_OK);
        return elements;
    };
    for (size_t i = 0; i < 5; ++i) {
        fail_each_allocation(
            [&] { return nl_options_set_text(options.get(), NL_OPTION_STOP_TEXT, stop.data(), stop.size()); },
            [&] { EXPECT_EQ(count(NL_OPTION_STOP_TEXT), i); });
        EXPECT_EQ(count(NL_OPTION_STOP_TEXT), i + 1);
    }
    size_t length = 0;
    std::string text(8192, '\0');
    fail_each_allocation([&] { return nl_option_describe(NL_OPTIONS_ENGINE, text.data(), text.size(), &length); },
                         [&] { EXPECT_EQ(length, 0U); });
}

TEST_F(AllocationTest, FactsAsTextAreWholeOrNothing) {
    const CacheHandle cache = make_cache(engine.get());
    size_t length = 0;
    std::string text(8192, '\0');
    fail_each_allocation([&] { return nl_engine_describe(engine.get(), text.data(), text.size(), &length); },
                         [&] { EXPECT_EQ(length, 0U); });
    length = 0;
    text.resize(16384);
    fail_each_allocation([&] { return nl_engine_metrics(engine.get(), text.data(), text.size(), &length); },
                         [&] { EXPECT_EQ(length, 0U); });
    length = 0;
    fail_each_allocation([&] { return nl_cache_describe(cache.get(), text.data(), text.size(), &length); },
                         [&] { EXPECT_EQ(length, 0U); });
}

// tokenizer.json and what is made from it. (tokenizer.model is libsentencepiece's.)
TEST_F(AllocationTest, TextIsWholeOrNothing) {
    const TempFolder folder;
    folder.write("tokenizer.json",
                 R"({"added_tokens":[{"content":"<|im_start|>","id":6,"special":true},)"
                 R"({"content":"<|im_end|>","id":7,"special":true}],"normalizer":{"type":"NFC"},)"
                 R"("pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE",)"
                 R"("vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"c":4,"d":5},"merges":["a b"]}})");
    folder.write("chat_template.jinja",
                 "{% macro f(x) %}{{ x | trim }}{% endmacro %}{% set ns = namespace(a=[]) %}{% for m in messages %}"
                 "{% set ns.a = ns.a + [m.role] %}{{ '<|im_start|>' + f(m.content) ~ (tools | tojson) }}{% endfor %}"
                 "{{ ns.a | join(',') }}{{ strftime_now('%d %b') }}");
    nl_tokenizer* loaded = nullptr;
    fail_each_allocation([&] { return nl_tokenizer_load(folder.path().data(), folder.path().size(), &loaded); },
                         [&] { EXPECT_EQ(loaded, nullptr); });
    const TokenizerHandle tokenizer(loaded);
    const std::string text = "ab <|im_end|> e\xCC\x81 abababab abababab abababab";
    Tokens tokens(64);
    size_t count = 0;
    fail_each_allocation(
        [&] {
            return nl_tokenizer_encode(tokenizer.get(), text.data(), text.size(), 0, tokens.data(), tokens.size(),
                                       &count);
        },
        [&] { EXPECT_EQ(count, 0U); });
    char decoded[64];
    size_t length = 0;
    fail_each_allocation(
        [&] { return nl_tokenizer_decode(tokenizer.get(), tokens.data(), count, decoded, sizeof decoded, &length); },
        [&] { EXPECT_EQ(length, 0U); });
    nl_chat_format* made = nullptr;
    fail_each_allocation([&] { return nl_chat_format_create(tokenizer.get(), "chatml", 6, &made); },
                         [&] { EXPECT_EQ(made, nullptr); });
    const int32_t role = NL_ROLE_USER;
    const char* const content = text.data();
    const size_t content_length = text.size();
    size_t end = 0;
    count = 0;
    fail_each_allocation(
        [&] {
            return nl_chat_format_render(made, &role, &content, &content_length, 1, 0, &end, tokens.data(),
                                         tokens.size(), &count);
        },
        [&] { EXPECT_EQ(count + end, 0U); });
    EXPECT_EQ(end, count);
    nl_chat_format_free(made);
    made = nullptr;
    fail_each_allocation([&] { return nl_chat_format_create(tokenizer.get(), "", 0, &made); },
                         [&] { EXPECT_EQ(made, nullptr); });
    const std::string request = R"({"messages":[{"role":"user","content":" a <|im_end|> "}],"tools":[{"a":[1,"b"]}]})";
    end = count = 0;
    fail_each_allocation(
        [&] {
            return nl_chat_format_render_json(made, request.data(), request.size(), 0, &end, 1, tokens.data(),
                                              tokens.size(), &count);
        },
        [&] { EXPECT_EQ(count + end, 0U); });
    EXPECT_GT(count, end);
    nl_chat_format_free(made);
}

}  // namespace
}  // namespace nanolith::test
