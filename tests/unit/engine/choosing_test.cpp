// How the step loop serves what draws need: known tokens, bans, masks, log-probabilities and scores.
#include <gtest/gtest.h>

#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

GenerationOptions tokens_only(int64_t count) {
    return {.max_tokens = count, .end_tokens = false, .text = false};
}

// The next step's forward pass is submitted before the token is known, its draws after.
TEST(Choosing, DrawsThatFollowTheHistoryKnowAllOfIt) {
    for (const bool penalised : {false, true}) {
        FakeEngine engine;
        engine.record->edits_newest = penalised;
        const auto cache = engine.cache();
        SamplingOptions options{.temperature = 1, .seed = 3};
        if (penalised) options.repetition_penalty = 1.5F;
        ASSERT_TRUE(engine->set_sampling(*cache, options).ok());
        const Tokens prompt = tokens_from(5, 40);
        const auto answer = FakeEngine::read_all(*engine.generate(*cache, prompt, tokens_only(30)));
        EXPECT_EQ(answer.tokens, engine.answer(prompt, options, tokens_only(30)).tokens);
        EXPECT_EQ(engine.record->most_in_flight, 2);
        EXPECT_GE(engine.record->late_draws, penalised ? 30 : 0);
        EXPECT_LE(engine.record->late_draws, penalised ? 32 : 0);
    }
}

// Whatever step's draws fail, its generations end with the error, and what comes after them draws as if nothing had
// been.
TEST(Choosing, DrawsThatFailEndTheirGenerations) {
    for (int32_t good = 0; good < 6; ++good) {
        FakeEngine engine;
        const auto penalised = engine.cache();
        const auto plain = engine.cache();
        const SamplingOptions options{.presence_penalty = 1};
        ASSERT_TRUE(engine->set_sampling(*penalised, options).ok());
        engine.record->step_microseconds = 500;
        const auto first = engine.generate(*penalised, tokens_from(1, 3), tokens_only(50));
        const auto second = engine.generate(*plain, tokens_from(9, 3), tokens_only(5000));
        while (engine.record->late_draws < good) std::this_thread::yield();
        engine.record->fail_draws = 1;
        const auto failed = FakeEngine::read_all(*first);
        EXPECT_EQ(failed.end, NL_END_ERROR);
        second->cancel();
        FakeEngine::read_all(*second);
        const Tokens before = engine->tokens(*penalised);
        const auto answer = FakeEngine::read_all(*engine.generate(*penalised, tokens_from(4, 2), tokens_only(9)));
        Tokens all = before;
        for (const int32_t token : tokens_from(4, 2)) all.push_back(token);
        EXPECT_EQ(answer.tokens, engine.answer(all, options, tokens_only(9)).tokens);
    }
}

// A device that can't give the logits ends the generation whose callback wants them, and no later one.
TEST(Choosing, LogitsThatCannotBeReadEndTheirGeneration) {
    FakeEngine engine;
    const auto cache = engine.cache();
    int32_t calls = 0;
    GenerationOptions options = tokens_only(20);
    options.change_logits = [](void* user_data, const int32_t*, size_t, float*, size_t) {
        ++*static_cast<int32_t*>(user_data);
        return 0;
    };
    options.change_logits_user_data = &calls;
    engine.record->fail_undrawn = 1;
    EXPECT_EQ(FakeEngine::read_all(*engine.generate(*cache, tokens_from(1, 3), options)).end, NL_END_ERROR);
    EXPECT_EQ(calls, 0);
    const auto answer = FakeEngine::read_all(*engine.generate(*cache, tokens_from(1, 3), options));
    EXPECT_EQ(answer.tokens, engine.answer(tokens_from(1, 3), {}, tokens_only(20)).tokens);
    EXPECT_EQ(calls, 20);
}

// Also where the row of a token was submitted before the tokens behind it were known to be forced. Digits alone are
// chosen: each is the one that follows its context without a jump.
TEST(Choosing, ForcedTokensAreComputedInTheirOrder) {
    const auto tokenizer = Tokenizer::load(std::string(NL_UNIT_DATA) + "/bpe_bytes");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    const char* const text =
        "[0-9]{2}: the number of bytes is [0-9], which the programmer had expected[0-9]{3} times, [0-9] or [0-9]";
    for (const int32_t depth : {1, 2}) {
        FakeEngine engine({.depth = depth, .vocab_size = 400, .tokenizer = *tokenizer});
        GenerationOptions options;
        options.end_tokens = false;
        options.constraint = {.kind = grammar::ConstraintKind::regex, .text = text};
        const Tokens prompt = tokens_from(5, 40);
        size_t steps[2];  // without jumps and with them
        for (const bool jumps : {false, true}) {
            options.jump_ahead = jumps;
            const auto alone = engine.cache();
            const size_t before = engine.record->rows.size();
            EXPECT_EQ(FakeEngine::read_all(*engine.generate(*alone, prompt, options)).end, NL_END_COMPLETE);
            steps[jumps ? 1 : 0] = engine.record->rows.size() - before;
        }
        EXPECT_LT(2 * steps[1], steps[0]);
        // Beside another conversation, whose rows are in each step.
        const auto other = engine.cache();
        const auto beside = engine.generate(*other, tokens_from(9, 3), tokens_only(60));
        const auto cache = engine.cache();
        const auto answer = FakeEngine::read_all(*engine.generate(*cache, prompt, options));
        EXPECT_EQ(answer.end, NL_END_COMPLETE);
        EXPECT_EQ(FakeEngine::read_all(*beside).tokens, engine.answer(tokens_from(9, 3), {}, tokens_only(60)).tokens);
        options.jump_ahead = false;
        int32_t digits = 0;
        for (size_t i = 0; i < answer.tokens.size(); ++i) {
            const auto spelled = (*tokenizer)->surface(answer.tokens[i], false);
            ASSERT_TRUE(spelled.ok());
            if (spelled->bytes.find_first_of("0123456789") == std::string::npos) continue;
            ++digits;
            Tokens before = prompt;
            before.insert(before.end(), answer.tokens.begin(), answer.tokens.begin() + static_cast<std::ptrdiff_t>(i));
            options.constrained_tokens = static_cast<int32_t>(i);
            const auto again = engine.cache();
            EXPECT_EQ(FakeEngine::read_all(*engine.generate(*again, before, options)).tokens.front(), answer.tokens[i]);
        }
        EXPECT_GE(digits, 4);
    }
}

// A conversation with penalties has a row in every step, although the plain one beside it need not wait for its tokens.
TEST(Choosing, ConversationsThatWaitForTheirTokensLoseNoStep) {
    FakeEngine engine;
    const auto penalised = engine.cache();
    const auto plain = engine.cache();
    ASSERT_TRUE(engine->set_sampling(*penalised, {.presence_penalty = 1}).ok());
    engine.record->hold = 1;  // until both have begun
    const auto first = engine.generate(*penalised, tokens_from(1, 3), tokens_only(50));
    const auto second = engine.generate(*plain, tokens_from(9, 3), tokens_only(50));
    engine.record->hold = 0;
    EXPECT_EQ(FakeEngine::read_all(*first).tokens.size(), 50U);
    EXPECT_EQ(FakeEngine::read_all(*second).tokens.size(), 50U);
    const std::lock_guard lock(engine.record->mutex);
    EXPECT_LT(engine.record->rows.size(), 60U);
}

TEST(Choosing, BannedAndMaskedTokensAreNotDrawn) {
    FakeEngine engine({.vocab_size = 50});
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->set_sampling(*cache, {.banned = {7, 8}, .allowed = {7, 9, 31, 32, 49}}).ok());
    const auto answer = FakeEngine::read_all(*engine.generate(*cache, {1, 2, 3}, tokens_only(100)));
    ASSERT_EQ(answer.tokens.size(), 100U);
    for (const int32_t token : answer.tokens) EXPECT_TRUE(token == 9 || token == 31 || token == 32 || token == 49);
    EXPECT_EQ(engine.record->most_in_flight, 2) << "these do not depend on the tokens before";
}

TEST(Choosing, LogprobsGoWithTheirTokens) {
    FakeEngine engine;
    const auto cache = engine.cache();
    ASSERT_TRUE(engine->extend(*cache, Tokens{5, 6}).ok());
    GenerationOptions options = tokens_only(40);
    options.logprobs = true;
    options.top_logprobs = 2;
    const auto generation = engine.generate(*cache, {}, options);
    int32_t end = NL_END_NONE;
    size_t read = 0;
    while (end == NL_END_NONE) {
        int32_t tokens[3];
        const auto piece = generation->next(20'000, tokens, {});
        ASSERT_TRUE(piece.ok());
        end = piece->end;
        const auto given = generation->given_logprobs();
        ASSERT_TRUE(given.ok());
        ASSERT_EQ(given->num_tokens, piece->num_tokens);
        for (size_t i = 0; i < piece->num_tokens; ++i, ++read) {
            const auto of_token = given->of(i);
            ASSERT_EQ(of_token.size(), 3U);
            EXPECT_EQ(of_token[0].token, tokens[i]);
            EXPECT_EQ(of_token[0].logprob, fake_logprob(tokens[i]));
            EXPECT_EQ(of_token[2].token, tokens[i] + 1);
        }
    }
    EXPECT_EQ(read, 40U);
}

// The scores are those of the tokens given, however the rows are cut into steps.
TEST(Choosing, ScoresComeBackInOrder) {
    for (const int32_t most_outputs : {1, 2, 7, 256}) {
        for (const int32_t most_rows : {1, 3, 16, 2048}) {
            FakeEngine engine({.options = {.max_batch_tokens = most_rows, .max_output_rows = most_outputs}});
            const auto chunk = engine->prefill({}, tokens_from(400, 20), 1, {});
            ASSERT_TRUE(chunk.ok());
            const auto cache = engine.cache({chunk->chunk});
            Tokens all = tokens_from(400, 20);
            for (const int32_t count : {40, 1, 17}) {
                const Tokens tokens = tokens_from(7 * count, count);
                std::vector<float> scores(tokens.size(), 1);
                const auto scored = engine->score(*cache, tokens, scores);
                ASSERT_TRUE(scored.ok()) << scored.error().message;
                for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(scores[i], fake_logprob(tokens[i])) << i;
                all.insert(all.end(), tokens.begin(), tokens.end());
                EXPECT_EQ(engine->tokens(*cache), all);
            }
            const auto answer = FakeEngine::read_all(*engine.generate(*cache, {}, tokens_only(5)));
            EXPECT_EQ(answer.tokens, engine.answer(all, {}, tokens_only(5)).tokens);
        }
    }
}

}  // namespace
}  // namespace nanolith::testing
