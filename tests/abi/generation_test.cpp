// Generations through the public header: what is refused, what they give, and how they end.
#include <poll.h>

#include <algorithm>
#include <cstddef>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

// What nl_generation_next gave until the end.
struct Answer {
    Tokens tokens;
    std::string text;
    int32_t end = NL_END_NONE;
    nl_status status = NL_OK;
};

class GenerationTest : public testing::Test {
  protected:
    // Draws `max_tokens` tokens whatever they are.
    static OptionsHandle plain_options(int64_t max_tokens) {
        OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, max_tokens), NL_OK);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0), NL_OK);
        return options;
    }
    static GenerationHandle start(nl_cache* cache, const Tokens& prompt, const nl_options* options) {
        nl_generation* made = nullptr;
        EXPECT_EQ(nl_generation_start(cache, prompt.data(), prompt.size(), options, &made), NL_OK) << nl_last_error();
        return GenerationHandle(made);
    }
    // Reads to the end, `room` tokens and 4 * room bytes at a time.
    static Answer read(nl_generation* generation, size_t room) {
        Answer answer;
        Tokens tokens(room);
        std::string text(4 * room, '\0');
        while (answer.end == NL_END_NONE && answer.status == NL_OK) {
            size_t count = 0;
            size_t length = 0;
            answer.status = nl_generation_next(generation, -1, tokens.data(), room, &count, text.data(), text.size(),
                                               &length, &answer.end);
            answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.begin() + count);
            answer.text.append(text, 0, length);
        }
        return answer;
    }
    // The tokens that nl_decode_step draws after the prompt.
    Tokens step_by_step(const Tokens& prompt, int count) const {
        const CacheHandle cache = make_cache(engine_.get());
        extend(cache.get(), prompt);
        return decode(cache.get(), count);
    }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    CacheHandle cache_ = make_cache(engine_.get());
    Tokens prompt_ = some_tokens(20);
};

TEST_F(GenerationTest, RefusesWrongArguments) {
    nl_generation* made = nullptr;
    const int32_t token = 5;
    EXPECT_INVALID("cache", nl_generation_start(nullptr, &token, 1, nullptr, &made));
    EXPECT_INVALID("generation", nl_generation_start(cache_.get(), &token, 1, nullptr, nullptr));
    EXPECT_INVALID("tokens", nl_generation_start(cache_.get(), nullptr, 1, nullptr, &made));
    EXPECT_INVALID("num_tokens", nl_generation_start(cache_.get(), &token, SIZE_MAX, nullptr, &made));
    EXPECT_EQ(nl_generation_start(cache_.get(), nullptr, 0, nullptr, &made), NL_ERROR_INVALID_ARGUMENT);  // empty
    const OptionsHandle engine_options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_INVALID("expected NL_OPTIONS_GENERATION",
                   nl_generation_start(cache_.get(), &token, 1, engine_options.get(), &made));
    const OptionsHandle stop = make_options(NL_OPTIONS_GENERATION);
    NL_CHECK(nl_options_set_text(stop.get(), NL_OPTION_STOP_TEXT, "x", 1));
    NL_CHECK(nl_options_set_int(stop.get(), NL_OPTION_TEXT, 0));
    EXPECT_INVALID("NL_OPTION_STOP_TEXT", nl_generation_start(cache_.get(), &token, 1, stop.get(), &made));
    EXPECT_EQ(made, nullptr);
    EXPECT_INVALID("cache", nl_cache_cancel(nullptr));
    EXPECT_INVALID("engine", nl_engine_cancel(nullptr));
    nl_generation_free(nullptr);
}

TEST_F(GenerationTest, NextRefusesWrongArguments) {
    const OptionsHandle options = plain_options(5);
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    nl_generation* const g = generation.get();
    int32_t tokens[8];
    char text[8];
    size_t count = 77;
    size_t length = 77;
    int32_t end = 77;
    EXPECT_INVALID("generation", nl_generation_next(nullptr, 0, tokens, 8, &count, text, 8, &length, &end));
    EXPECT_INVALID("end", nl_generation_next(g, 0, tokens, 8, &count, text, 8, &length, nullptr));
    EXPECT_INVALID("tokens is NULL", nl_generation_next(g, 0, nullptr, 8, &count, text, 8, &length, &end));
    EXPECT_INVALID("num_tokens", nl_generation_next(g, 0, tokens, 8, nullptr, text, 8, &length, &end));
    EXPECT_INVALID("token_capacity is 0", nl_generation_next(g, 0, tokens, 0, &count, text, 8, &length, &end));
    EXPECT_INVALID("text is NULL", nl_generation_next(g, 0, tokens, 8, &count, nullptr, 8, &length, &end));
    EXPECT_INVALID("text_length", nl_generation_next(g, 0, tokens, 8, &count, text, 8, nullptr, &end));
    for (size_t capacity = 0; capacity < 4; ++capacity) {
        EXPECT_INVALID("text_capacity is " + std::to_string(capacity),
                       nl_generation_next(g, 0, tokens, 8, &count, text, capacity, &length, &end));
    }
    EXPECT_EQ(count + length, 154U);
    EXPECT_EQ(end, 77);
    int64_t value = 77;
    EXPECT_INVALID("generation", nl_generation_query(nullptr, NL_GENERATION_TOKENS, &value));
    EXPECT_INVALID("value", nl_generation_query(g, NL_GENERATION_TOKENS, nullptr));
    for (const int32_t fact : {-1, 0, 9})
        EXPECT_INVALID("fact is " + std::to_string(fact), nl_generation_query(g, fact, &value));
    EXPECT_EQ(value, 77);
    EXPECT_INVALID("descriptor", nl_generation_descriptor(g, nullptr));
    EXPECT_INVALID("generation", nl_generation_cancel(nullptr));
    EXPECT_EQ(read(g, 4).tokens.size(), 5U);  // nothing was lost
}

// However it is read: the tokens of the same request step by step, and the text that these tokens are.
TEST_F(GenerationTest, GivesWhatStepsGive) {
    const Tokens expected = step_by_step(prompt_, 24);
    nl_tokenizer* made = nullptr;
    NL_CHECK(nl_engine_tokenizer(engine_.get(), &made));
    const TokenizerHandle tokenizer(made);
    std::string text(4096, '\0');
    size_t length = 0;
    NL_CHECK(nl_tokenizer_decode(tokenizer.get(), expected.data(), expected.size(), text.data(), text.size(), &length));
    text.resize(length);
    for (const size_t room : {1, 3, 100}) {
        const CacheHandle cache = make_cache(engine_.get());
        const OptionsHandle options = plain_options(24);
        const GenerationHandle generation = start(cache.get(), prompt_, options.get());
        const Answer answer = read(generation.get(), room);
        EXPECT_EQ(answer.tokens, expected);
        EXPECT_EQ(answer.text, text);
        EXPECT_EQ(answer.end, NL_END_LENGTH);
        EXPECT_EQ(answer.status, NL_OK) << nl_last_error();
        Tokens context = prompt_;
        context.insert(context.end(), expected.begin(), expected.end());
        EXPECT_EQ(tokens_of(cache.get()), context);
        EXPECT_EQ(fact(generation.get(), NL_GENERATION_TOKENS), 24);
        EXPECT_EQ(fact(generation.get(), NL_GENERATION_END), NL_END_LENGTH);
        EXPECT_GE(fact(generation.get(), NL_GENERATION_FIRST_TOKEN_US), 0);
        EXPECT_GE(fact(generation.get(), NL_GENERATION_TOTAL_US), fact(generation.get(), NL_GENERATION_FIRST_TOKEN_US));
        // The end comes again and again.
        const Answer again = read(generation.get(), room);
        EXPECT_EQ(again.end, NL_END_LENGTH);
        EXPECT_TRUE(again.tokens.empty());
        EXPECT_TRUE(again.text.empty());
    }
}

TEST_F(GenerationTest, EndsBehindAStopToken) {
    const Tokens expected = step_by_step(prompt_, 24);
    const int32_t stop = expected[10];
    const auto first = std::find(expected.begin(), expected.end(), stop);
    const OptionsHandle options = plain_options(24);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_STOP_TOKEN, stop));
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    const Answer answer = read(generation.get(), 8);
    EXPECT_EQ(answer.end, NL_END_TOKEN);
    EXPECT_EQ(answer.tokens, Tokens(expected.begin(), first + 1));
}

TEST_F(GenerationTest, DropsWhatIsNotWanted) {
    const OptionsHandle options = plain_options(24);
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    int32_t end = NL_END_NONE;
    while (end == NL_END_NONE)
        NL_CHECK(nl_generation_next(generation.get(), -1, nullptr, 0, nullptr, nullptr, 0, nullptr, &end));
    EXPECT_EQ(end, NL_END_LENGTH);
    EXPECT_EQ(tokens_of(cache_.get()).size(), prompt_.size() + 24);
}

// A generation that nobody reads pauses when its buffer is full; until it has ended its cache is busy.
TEST_F(GenerationTest, KeepsItsCacheBusyUntilItEnds) {
    const OptionsHandle options = plain_options(24);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, 2));
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    nl_cache* const cache = cache_.get();
    const int32_t token = 5;
    int32_t drawn = 0;
    nl_cache* fork = nullptr;
    nl_generation* second = nullptr;
    std::vector<float> logits(400);
    size_t count = 0;
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    EXPECT_EQ(nl_cache_extend(cache, &token, 1), NL_ERROR_BUSY);
    EXPECT_EQ(nl_cache_fork(cache, &fork), NL_ERROR_BUSY);
    EXPECT_EQ(nl_cache_truncate(cache, 1), NL_ERROR_BUSY);
    EXPECT_EQ(nl_cache_logits(cache, logits.data(), logits.size(), &count), NL_ERROR_BUSY);
    EXPECT_EQ(nl_cache_set_sampling(cache, sampling.get()), NL_ERROR_BUSY);
    EXPECT_EQ(nl_decode_step(&cache, 1, &drawn), NL_ERROR_BUSY);
    EXPECT_EQ(nl_generation_start(cache, &token, 1, nullptr, &second), NL_ERROR_BUSY);
    EXPECT_EQ(fork, nullptr);
    EXPECT_EQ(second, nullptr);
    EXPECT_LT(tokens_of(cache).size(), prompt_.size() + 24);
    EXPECT_EQ(fact(generation.get(), NL_GENERATION_END), NL_END_NONE);
    NL_CHECK(nl_generation_cancel(generation.get()));
    const Answer answer = read(generation.get(), 4);
    EXPECT_EQ(answer.end, NL_END_CANCELLED);
    EXPECT_LT(answer.tokens.size(), 24U);
    extend(cache, {token});
}

TEST_F(GenerationTest, IsCancelledThroughItsCacheAndItsEngine) {
    for (const bool by_engine : {false, true}) {
        const CacheHandle cache = make_cache(engine_.get());
        const OptionsHandle options = plain_options(0);
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, 2));
        const GenerationHandle generation = start(cache.get(), prompt_, options.get());
        NL_CHECK(by_engine ? nl_engine_cancel(engine_.get()) : nl_cache_cancel(cache.get()));
        EXPECT_EQ(read(generation.get(), 4).end, NL_END_CANCELLED);
    }
    NL_CHECK(nl_cache_cancel(cache_.get()));  // nothing is under way
    extend(cache_.get(), prompt_);
}

TEST_F(GenerationTest, ItsDescriptorIsReadableWhileThereIsSomething) {
    const OptionsHandle options = plain_options(6);
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    int32_t descriptor = -1;
    int32_t again = -1;
    NL_CHECK(nl_generation_descriptor(generation.get(), &descriptor));
    NL_CHECK(nl_generation_descriptor(generation.get(), &again));
    EXPECT_EQ(descriptor, again);
    Tokens drawn;
    int32_t end = NL_END_NONE;
    while (end == NL_END_NONE) {
        pollfd waited = {.fd = descriptor, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&waited, 1, 60000), 1);
        int32_t token = 0;
        size_t count = 0;
        // Never TIMEOUT: the descriptor said that there is something.
        NL_CHECK(nl_generation_next(generation.get(), 0, &token, 1, &count, nullptr, 0, nullptr, &end));
        if (count == 1) drawn.push_back(token);
    }
    EXPECT_EQ(drawn, step_by_step(prompt_, 6));
}

TEST_F(GenerationTest, OutlivesTheHandlesThatItCameFrom) {
    const Tokens expected = step_by_step(prompt_, 12);
    const OptionsHandle options = plain_options(12);
    const GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    cache_.reset();
    engine_.reset();
    const Answer answer = read(generation.get(), 4);
    EXPECT_EQ(answer.tokens, expected);
    EXPECT_EQ(answer.end, NL_END_LENGTH);
}

TEST_F(GenerationTest, FreeingOneThatRunsGivesItsPagesBack) {
    const int64_t spare = spare_pages(engine_.get());
    const OptionsHandle options = plain_options(0);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, 2));
    GenerationHandle generation = start(cache_.get(), prompt_, options.get());
    generation.reset();
    cache_.reset();
    // It ends when the step that runs now is over.
    for (int wait = 0; wait < 60000 && spare_pages(engine_.get()) != spare; ++wait) poll(nullptr, 0, 1);
    EXPECT_EQ(spare_pages(engine_.get()), spare);
}

}  // namespace
}  // namespace nanolith::test
