#include "text/text_stream.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <random>
#include <vector>

#include "text/utf8.h"
#include "unit/text/tokenizer_fixtures.h"

namespace nanolith {
namespace {

TEST(TextStream, NeverSplitsACharacter) {
    const auto tokenizer = load_tokenizer("bpe_bytes");
    ASSERT_TRUE(tokenizer);
    TextStream stream(tokenizer);
    auto push = [&](const char* piece) { return *stream.push(*tokenizer->find(piece)); };
    EXPECT_EQ(push("<0xF0>"), "");
    EXPECT_EQ(push("<0x9F>"), "");
    EXPECT_EQ(push("<0x99>"), "");
    EXPECT_EQ(push("<0x82>"), "\xF0\x9F\x99\x82");
    EXPECT_EQ(push("<0xE2>"), "");
    EXPECT_EQ(push("<0x41>"),
              "\xEF\xBF\xBD"
              "A");
    EXPECT_EQ(push("<0xE2>"), "");
    EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
    EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, DropsOnlyTheEncodersSpace) {
    const auto bytes = load_tokenizer("bpe_bytes");
    const auto symbols = load_tokenizer("bpe_symbols");
    ASSERT_TRUE(bytes && symbols);
    const std::string space = "\xE2\x96\x81";
    TextStream dummy(bytes);
    EXPECT_EQ(*dummy.push(*bytes->find(space + "the")), "the");
    EXPECT_EQ(*dummy.push(*bytes->find(space + "the")), " the");
    EXPECT_EQ(dummy.finish(), "");
    EXPECT_EQ(*dummy.push(*bytes->find(space)), "");  // as new after finish
    EXPECT_EQ(*dummy.push(*bytes->find(space)), " ");
    TextStream none(symbols);
    EXPECT_EQ(*none.push(*symbols->find(space)), " ");
}

TEST(TextStream, AWrongTokenChangesNothing) {
    const auto tokenizer = load_tokenizer("bpe_bytes");
    ASSERT_TRUE(tokenizer);
    TextStream stream(tokenizer);
    ASSERT_TRUE(stream.push(*tokenizer->find("<0xC3>")).ok());
    const auto wrong = stream.push(-5);
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(*stream.push(*tokenizer->find("<0xA4>")), "\xC3\xA4");
}

// Random tokens, byte tokens and spaces more often than their share, so that characters break in every way.
std::vector<int32_t> random_tokens(const Tokenizer& tokenizer, std::mt19937& random) {
    const std::string space = "\xE2\x96\x81";
    std::vector<int32_t> tokens(random() % 12);
    for (int32_t& token : tokens) {
        token = static_cast<int32_t>(random() % static_cast<unsigned>(tokenizer.vocab_size()));
        if (random() % 4 == 0) token = *tokenizer.find(space);
        const char* pieces[] = {"<0xE2>", "<0x82>", "<0xAC>", "<0xF0>", "<0x9F>", "<0xC3>"};
        const auto byte = tokenizer.find(pieces[random() % 6]);
        if (byte.ok() && random() % 3 == 0) token = *byte;
    }
    return tokens;
}

TEST(TextStream, GivesWhatDecodeAndSentencePieceGive) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int compared = 0;
    for (const std::string name : kTokenizerNames) {
        SCOPED_TRACE(name);
        const auto tokenizer = load_tokenizer(name);
        ASSERT_TRUE(tokenizer);
        sentencepiece::SentencePieceProcessor reference;
        ASSERT_TRUE(reference.Load(tokenizer_folder(name) + "/tokenizer.model").ok());
        TextStream stream(tokenizer);
        for (int round = 0; round < 5000; ++round) {
            const std::vector<int32_t> tokens = random_tokens(*tokenizer, random);
            std::string streamed;
            for (const int32_t token : tokens) {
                const std::string text = *stream.push(token);
                ASSERT_TRUE(is_valid_utf8(text));
                streamed += text;
            }
            streamed += stream.finish();
            ASSERT_EQ(streamed, *tokenizer->decode(tokens));
            ASSERT_TRUE(is_valid_utf8(streamed));

            std::string expected;
            ASSERT_TRUE(reference.Decode(std::vector<int>(tokens.begin(), tokens.end()), &expected).ok());
            // It counts ill-formed bytes in its own way: one U+FFFD for each.
            if (expected.find(kReplacementCharacter) != std::string::npos) continue;
            ASSERT_EQ(streamed, expected);
            ++compared;
        }
    }
    EXPECT_GT(compared, 2000);
}

}  // namespace
}  // namespace nanolith
