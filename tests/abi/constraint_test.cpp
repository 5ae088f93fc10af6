// Constrained texts that begin before their generation, and those that jump over what is forced. What constraints allow
// is tested in tests/unit/grammar and tests/grammar.
#include <algorithm>
#include <regex>

#include "abi/generation_fixtures.h"

namespace nanolith::test {
namespace {

class ConstraintTest : public GenerationFixture {
  protected:
    OptionsHandle constrained(const std::string& regex, int64_t max_tokens) {
        OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
        set_text(options.get(), NL_OPTION_REGEX, regex);
        set_int(options.get(), NL_OPTION_MAX_TOKENS, max_tokens);
        return options;
    }
    struct Answer {
        Tokens tokens;
        std::string text;
        int32_t end = NL_END_NONE;
    };
    static Answer answer(nl_cache* cache, const Tokens& tokens, const OptionsHandle& options) {
        const GenerationHandle generation = start(cache, tokens, options);
        Answer all;
        while (all.end == NL_END_NONE) {
            int32_t some[7];
            char text[64];
            size_t count = 0;
            size_t length = 0;
            const nl_status status =
                nl_generation_next(generation.get(), -1, some, 7, &count, text, sizeof text, &length, &all.end);
            EXPECT_EQ(status, NL_OK) << nl_last_error();
            if (status != NL_OK) break;
            all.tokens.insert(all.tokens.end(), some, some + count);
            all.text.append(text, length);
        }
        // One of the tiny model's end tokens is that of the byte 4.
        if (all.end == NL_END_TOKEN && all.text.ends_with('\4')) all.text.pop_back();
        return all;
    }
    // How many steps the engine has computed.
    int64_t steps() {
        const std::string text = metrics_of(engine_.get());
        const std::string name = "nanolith_step_seconds_count ";
        const size_t place = text.find("\n" + name);
        EXPECT_NE(place, std::string::npos) << text;
        return std::stoll(text.substr(place + 1 + name.size()));
    }
};

const char* const kSentence = "[a-z]{3,6} [a-z ]{30,60}, (and|or) [0-9]{4}\\.";

// Ended after any number of tokens and begun again, in the same cache, in a fork of it and behind given tokens, the
// text is the one that an unbroken generation writes.
TEST_F(ConstraintTest, ATextGoesOnWhereAnotherGenerationEnded) {
    const CacheHandle whole = make_cache(engine_.get());
    const Answer expected = answer(whole.get(), prompt_, constrained(kSentence, 0));
    ASSERT_TRUE(std::regex_match(expected.text, std::regex(kSentence))) << expected.text;
    ASSERT_GT(expected.tokens.size(), 20U);
    for (int32_t first = 1; first < 20; first += 3) {
        const CacheHandle cache = make_cache(engine_.get());
        const Answer begun = answer(cache.get(), prompt_, constrained(kSentence, first));
        ASSERT_EQ(begun.tokens, Tokens(expected.tokens.begin(), expected.tokens.begin() + first));
        nl_cache* made = nullptr;
        NL_CHECK(nl_cache_fork(cache.get(), &made));
        const CacheHandle fork(made);
        const CacheHandle given = make_cache(engine_.get());
        extend(given.get(), prompt_);
        const OptionsHandle options = constrained(kSentence, 0);
        set_int(options.get(), NL_OPTION_CONSTRAINED_TOKENS, first);
        const Answer rests[] = {answer(cache.get(), {}, options), answer(fork.get(), {}, options),
                                answer(given.get(), begun.tokens, options)};
        for (const Answer& rest : rests) {
            EXPECT_EQ(begun.text + rest.text, expected.text);
            EXPECT_EQ(rest.tokens, Tokens(expected.tokens.begin() + first, expected.tokens.end()));
            EXPECT_EQ(rest.end, expected.end);
        }
        NL_CHECK(nl_cache_truncate(cache.get(), prompt_.size() + 1));
        set_int(options.get(), NL_OPTION_CONSTRAINED_TOKENS, 1);
        EXPECT_EQ(answer(cache.get(), {}, options).tokens, Tokens(expected.tokens.begin() + 1, expected.tokens.end()));
    }
}

TEST_F(ConstraintTest, ABeginningThatDoesNotFitIsRefused) {
    const CacheHandle cache = make_cache(engine_.get());
    extend(cache.get(), prompt_);
    nl_generation* generation = nullptr;
    const auto start_with = [&](const char* regex, const std::string& begin, int64_t count) {
        const OptionsHandle options = constrained(regex, 5);
        set_int(options.get(), NL_OPTION_CONSTRAINED_TOKENS, count);
        const Tokens tokens = encode(engine_.get(), begin);
        return nl_generation_start(cache.get(), tokens.data(), tokens.size(), options.get(), &generation);
    };
    const auto count = static_cast<int64_t>(encode(engine_.get(), "xy").size());
    EXPECT_INVALID("expected no more than the tokens of the cache and of this call", start_with("[a-z]+", "xy", 4000));
    EXPECT_INVALID("the constraint does not allow token", start_with("[0-9]+", "xy", count));
    EXPECT_INVALID("number 0 of these", start_with("[0-9]+", "xy", count));
    EXPECT_EQ(tokens_of(cache.get()), prompt_) << "nothing is appended";
    const OptionsHandle free = tokens_only(3);
    set_int(free.get(), NL_OPTION_CONSTRAINED_TOKENS, 1);
    EXPECT_INVALID("NL_OPTION_CONSTRAINED_TOKENS is 1: expected 0 where no constraint is set",
                   nl_generation_start(cache.get(), nullptr, 0, free.get(), &generation));
    const OptionsHandle endless = constrained("xy", 5);
    set_int(endless.get(), NL_OPTION_END_TOKENS, 0);
    const CacheHandle other = make_cache(engine_.get());
    const Answer all = answer(other.get(), prompt_, endless);
    EXPECT_EQ(all.end, NL_END_COMPLETE);
    set_int(endless.get(), NL_OPTION_CONSTRAINED_TOKENS, static_cast<int64_t>(all.tokens.size()));
    EXPECT_INVALID("complete already", nl_generation_start(other.get(), nullptr, 0, endless.get(), &generation));
    EXPECT_EQ(generation, nullptr);
}

const char* const kForced = "[ab]{2}: the number of bytes is [0-9], which the programmer had expected(!|\\?)";

// The text is complete, takes fewer steps, and the cache is as if its tokens had been drawn one by one.
TEST_F(ConstraintTest, ForcedTextTakesNoSteps) {
    int64_t took[2];
    for (const bool jumps : {false, true}) {
        const CacheHandle cache = make_cache(engine_.get());
        const OptionsHandle options = constrained(kForced, 0);
        set_int(options.get(), NL_OPTION_JUMP_AHEAD, jumps ? 1 : 0);
        const int64_t before = steps();
        const Answer found = answer(cache.get(), prompt_, options);
        took[jumps ? 1 : 0] = steps() - before;
        EXPECT_TRUE(std::regex_match(found.text, std::regex(kForced))) << found.text;
        EXPECT_EQ(found.end, NL_END_TOKEN);
        Tokens context = prompt_;
        context.insert(context.end(), found.tokens.begin(), found.tokens.end());
        EXPECT_EQ(tokens_of(cache.get()), context);
        const CacheHandle again = make_cache(engine_.get());
        extend(again.get(), context);
        const auto expected = logits_of(again.get());
        const auto logits = logits_of(cache.get());
        for (size_t token = 0; token < expected.size(); ++token) ASSERT_NEAR(logits[token], expected[token], 2e-2);
    }
    EXPECT_LT(took[1] * 2, took[0]);
}

// Wherever it ends, and with a reader who leaves little room, the tokens are those of the whole text.
TEST_F(ConstraintTest, AJumpEndsWhereTheGenerationDoes) {
    const auto jumping = [&](int64_t max_tokens) {
        OptionsHandle options = constrained(kForced, max_tokens);
        set_int(options.get(), NL_OPTION_JUMP_AHEAD, 1);
        return options;
    };
    const Answer whole = answer(make_cache(engine_.get()).get(), prompt_, jumping(0));
    for (int64_t most = 1; most < 12; ++most) {
        // Few tokens leave no room for the whole text, so that nothing is chosen with its end in mind.
        const CacheHandle cache = make_cache(engine_.get());
        const Answer cut = answer(cache.get(), prompt_, jumping(most));
        EXPECT_EQ(cut.end, NL_END_LENGTH);
        EXPECT_EQ(cut.tokens, Tokens(whole.tokens.begin(), whole.tokens.begin() + most));
        EXPECT_EQ(decode(cache.get(), 2).size(), 2U) << "the cache goes on, with forced tokens that are not computed";
    }
    const OptionsHandle narrow = jumping(0);
    set_int(narrow.get(), NL_OPTION_BUFFER_TOKENS, 2);
    EXPECT_TRUE(std::regex_match(answer(make_cache(engine_.get()).get(), prompt_, narrow).text, std::regex(kForced)));
    const OptionsHandle stopped = jumping(0);
    set_text(stopped.get(), NL_OPTION_STOP_TEXT, "bytes");
    const Answer short_one = answer(make_cache(engine_.get()).get(), prompt_, stopped);
    EXPECT_EQ(short_one.end, NL_END_TEXT);
    EXPECT_EQ(short_one.text, whole.text.substr(0, 2) + ": the number of ");
}

TEST_F(ConstraintTest, AJumpGoesToTheEndOfTheText) {
    for (const int end_tokens : {0, 1}) {
        const OptionsHandle options = constrained("[ab]{2}: [0-9]{2} bytes, which is the end of it", 0);
        set_int(options.get(), NL_OPTION_JUMP_AHEAD, 1);
        set_int(options.get(), NL_OPTION_END_TOKENS, end_tokens);
        const CacheHandle cache = make_cache(engine_.get());
        const Answer found = answer(cache.get(), prompt_, options);
        EXPECT_TRUE(std::regex_match(found.text, std::regex("[ab]{2}: [0-9]{2} bytes, which is the end of it")))
            << found.text;
        EXPECT_EQ(found.end, end_tokens == 1 ? NL_END_TOKEN : NL_END_COMPLETE);
        Tokens context = prompt_;
        context.insert(context.end(), found.tokens.begin(), found.tokens.end());
        EXPECT_EQ(tokens_of(cache.get()), context);
    }
}

TEST_F(ConstraintTest, TokensThatMayNotBeDrawnAreNotJumpedTo) {
    const CacheHandle cache = make_cache(engine_.get());
    const Answer before = answer(cache.get(), prompt_, [&] {
        OptionsHandle options = constrained(kForced, 0);
        set_int(options.get(), NL_OPTION_JUMP_AHEAD, 1);
        return options;
    }());
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    const int32_t banned = *std::max_element(before.tokens.begin(), before.tokens.end());  // no single byte
    set_int(sampling.get(), NL_OPTION_BANNED_TOKEN, banned);
    const CacheHandle other = make_cache(engine_.get());
    use(other.get(), sampling);
    const OptionsHandle options = constrained(kForced, 0);
    set_int(options.get(), NL_OPTION_JUMP_AHEAD, 1);
    const Answer without = answer(other.get(), prompt_, options);
    EXPECT_EQ(std::count(without.tokens.begin(), without.tokens.end(), banned), 0);
    EXPECT_TRUE(std::regex_match(without.text, std::regex(kForced))) << without.text;
    set_int(options.get(), NL_OPTION_LOGPROBS, 1);
    nl_generation* generation = nullptr;
    EXPECT_INVALID("NL_OPTION_JUMP_AHEAD is 1",
                   nl_generation_start(other.get(), nullptr, 0, options.get(), &generation));
}

}  // namespace
}  // namespace nanolith::test
