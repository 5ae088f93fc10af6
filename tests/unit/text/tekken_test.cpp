// tekken.json files that are damaged or beyond what is supported, and where a folder has one.
#include "text/tekken.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "support/temp_folder.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

std::string base64_of_byte(uint32_t byte) {
    constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return {kAlphabet[byte >> 2U], kAlphabet[(byte & 3U) << 4U], '=', '='};
}

std::string piece(size_t rank, const std::string& base64) {
    return R"({"rank":)" + std::to_string(rank) + R"(,"token_bytes":")" + base64 + R"(","token_str":null})";
}

// A file of the 256 bytes, "ab" (300 - 4 = rank 256) and what a test puts in.
struct TekkenParts {
    std::string version = "v3";
    std::string pattern = "[^ ]+| ";
    int64_t vocab_size = 261;
    int64_t num_specials = 4;
    std::string specials = R"(,"special_tokens":[{"rank":0,"token_str":"<unk>"},{"rank":1,"token_str":"<s>"},)"
                           R"({"rank":2,"token_str":"</s>"}])";
    std::string byte_of_a = "YQ==";
    std::string last = piece(256, "YWI=");

    [[nodiscard]] std::string json() const {
        std::string vocab;
        for (uint32_t byte = 0; byte < 256; ++byte)
            vocab += piece(byte, byte == 'a' ? byte_of_a : base64_of_byte(byte)) + ",";
        return R"({"config":{"pattern":")" + pattern + R"(","version":")" + version + R"(","default_vocab_size":)" +
               std::to_string(vocab_size) + R"(,"default_num_special_tokens":)" + std::to_string(num_specials) +
               R"(},"vocab":[)" + vocab + last + "]" + specials + "}";
    }
    [[nodiscard]] Result<std::shared_ptr<const Tokenizer>> load() const {
        return parse_tekken(json(), "folder/tekken.json", {});
    }
};

void expect_refused(const TekkenParts& parts, nl_status status, const std::string& text) {
    const auto tokenizer = parts.load();
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_EQ(tokenizer.error().status, status) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(text), std::string::npos) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find("folder/tekken.json"), std::string::npos) << tokenizer.error().message;
}

TEST(Tekken, TakesASmallOne) {
    const auto loaded = TekkenParts().load();
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Tokenizer& tokenizer = **loaded;
    EXPECT_EQ(tokenizer.vocab_size(), 261);
    EXPECT_EQ(tokenizer.bos(), 1);
    EXPECT_EQ(tokenizer.eos(), 2);
    EXPECT_EQ(tokenizer.unk(), 0);
    EXPECT_EQ(tokenizer.pad(), -1);
    EXPECT_EQ(*tokenizer.piece(3), "<SPECIAL_3>");
    EXPECT_EQ(*tokenizer.encode("ab b", NL_ENCODE_ADD_SPECIAL), (Tokens{1, 260, 4 + ' ', 4 + 'b'}));
    EXPECT_EQ(*tokenizer.encode("a</s>", 0), (Tokens{4 + 'a', 2}));
    EXPECT_EQ(tokenizer.encode("a</s>", NL_ENCODE_SPECIAL_AS_TEXT)->size(), 5U);
    EXPECT_EQ(*tokenizer.decode(Tokens{1, 260, 4 + ' ', 4 + 'b', 2}), "ab b");
}

TEST(Tekken, RefusesWhatContradictsItself) {
    TekkenParts parts;
    parts.vocab_size = 262;
    expect_refused(parts, NL_ERROR_BAD_MODEL, "default_vocab_size is 262");
    parts.vocab_size = 200;
    expect_refused(parts, NL_ERROR_BAD_MODEL, "default_vocab_size is 200");
    parts = {};
    parts.num_specials = 2;
    parts.vocab_size = 259;
    expect_refused(parts, NL_ERROR_BAD_MODEL, "special_tokens has 3 tokens");
    parts = {};
    parts.byte_of_a = "Yg==";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "vocab[97].token_bytes");
    for (const std::string& last : {piece(257, "YWI="), piece(256, "YQ=="), piece(256, ""), piece(256, "YWI"),
                                    piece(256, "YW I"), piece(256, "YWJ="), std::string("7"), std::string("{}")}) {
        parts = {};
        parts.last = last;
        expect_refused(parts, NL_ERROR_BAD_MODEL, "vocab[256]");
    }
    parts = {};
    parts.specials = R"(,"special_tokens":[{"rank":1,"token_str":"<s>"}])";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "special_tokens[0].rank");
    parts.specials = R"(,"special_tokens":[{"rank":0,"token_str":"<s>"},{"rank":1,"token_str":"<s>"}])";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "twice");
    parts.specials = "";
    parts.version = "v11";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "special_tokens");
    EXPECT_EQ(parse_tekken("{}", "tekken.json", {}).error().status, NL_ERROR_BAD_MODEL);
}

TEST(Tekken, NamesWhatItDoesNotKnow) {
    TekkenParts parts;
    parts.version = "v99";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "version is \"v99\"");
    for (const std::string pattern : {"[a--b]", "\\\\b", "[a&&b]"}) {
        parts = {};
        parts.pattern = pattern;
        expect_refused(parts, NL_ERROR_UNSUPPORTED, "pattern");
    }
}

// A special token may be spelled as a piece is; the piece is still made of a text's characters.
TEST(Tekken, LetsASpecialTokenHideAPiece) {
    TekkenParts parts;
    parts.specials = R"(,"special_tokens":[{"rank":0,"token_str":"ab"}])";
    const auto tokenizer = parts.load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ(*(*tokenizer)->encode("ab", 0), Tokens{0});
    EXPECT_EQ(*(*tokenizer)->encode("ab", NL_ENCODE_SPECIAL_AS_TEXT), Tokens{260});
    EXPECT_EQ(*(*tokenizer)->find("ab"), 0);
}

TEST(Tekken, IsReadWhereAFolderHasNoOther) {
    const test::TempFolder folder;
    EXPECT_EQ(Tokenizer::load(folder.path()).error().status, NL_ERROR_NOT_FOUND);
    folder.write("tekken.json", TekkenParts().json());
    folder.write("tokenizer_config.json", R"({"bos_token":"</s>","chat_template":"x"})");
    const auto tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->vocab_size(), 261);
    EXPECT_EQ((*tokenizer)->bos(), 2);
    EXPECT_EQ((*tokenizer)->chat_template(), "x");
    folder.write("tokenizer.model", "damaged");
    EXPECT_EQ(Tokenizer::load(folder.path()).error().status, NL_ERROR_BAD_MODEL);
}

TEST(Tekken, SurvivesDamagedFiles) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::string json = TekkenParts().json();
    for (int round = 0; round < 300; ++round) {
        std::string damaged = json;
        // The sizes and the pattern stand in front of the vocabulary.
        const size_t end = round % 2 == 0 ? damaged.size() : 120;
        for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
            damaged[random() % end] = static_cast<char>(' ' + random() % 95);
        const auto tokenizer = parse_tekken(damaged, "tekken.json", {});
        if (!tokenizer.ok()) continue;
        const auto tokens = (*tokenizer)->encode("Hello  wörld\n\n1234 <s> 漢字", 0);
        if (!tokens.ok()) continue;
        EXPECT_TRUE(is_valid_utf8(*(*tokenizer)->decode(*tokens)));
    }
}

}  // namespace
}  // namespace nanolith
