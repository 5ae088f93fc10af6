// Tokenizers in GGUF files (tests/text/make_gguf.py) against what the reference packages make of the same vocabularies.
#include "text/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "files/json.h"
#include "support/gguf_writer.h"
#include "support/model_files.h"
#include "unit/text/reference_corpus.h"

namespace nanolith::testing {
namespace {

class GgufTokenizer : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        auto loaded = Tokenizer::load(std::string(NL_TEXT_FIXTURES) + "/../gguf/" + GetParam() + ".gguf");
        ASSERT_TRUE(loaded.ok()) << loaded.error().message;
        tokenizer_ = *loaded;
        expected_ = std::move(*read_json_object(text_fixture(GetParam()) + "/expected.json"));
    }
    std::shared_ptr<const Tokenizer> tokenizer_;
    Json expected_;
};

TEST_P(GgufTokenizer, TheSameTokensAndTexts) {
    const std::vector<std::string> corpus = read_corpus();
    const auto& rows = *expected_.find("rows")->as<Json::Array>();
    ASSERT_EQ(rows.size(), corpus.size());
    const bool strips = std::string(GetParam()) == "o200k";  // its tokens take spaces along: no GGUF file says so
    size_t compared = 0;
    for (size_t i = 0; i < corpus.size(); ++i) {
        if (strips && corpus[i].find("<|") != std::string::npos) continue;
        SCOPED_TRACE(show_json(corpus[i]));
        const auto& row = *rows[i].as<Json::Array>();
        EXPECT_EQ(*tokenizer_->encode(corpus[i], 0), read_tokens(row[0]));
        EXPECT_EQ(*tokenizer_->encode(corpus[i], NL_ENCODE_ADD_SPECIAL), read_tokens(row[1]));
        EXPECT_EQ(*tokenizer_->encode(corpus[i], NL_ENCODE_SPECIAL_AS_TEXT), read_tokens(row[2]));
        const auto* const text = row[3].as<std::string>();
        if (text != nullptr && text->find("\xEF\xBF\xBD") == std::string::npos) {
            EXPECT_EQ(*tokenizer_->decode(read_tokens(row[0])), *text);
        }
        ++compared;
    }
    EXPECT_GT(compared, 100U);
}

INSTANTIATE_TEST_SUITE_P(, GgufTokenizer,
                         ::testing::Values("gpt2", "llama3", "qwen2", "starcoder", "o200k", "sp_legacy"),
                         [](const auto& kind) { return std::string(kind.param); });

test::GgufWriter small_bpe(const char* pre) {
    test::GgufWriter writer;
    writer.add_text("tokenizer.ggml.model", "gpt2").add_text("tokenizer.ggml.pre", pre);
    writer.add_texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>", "<|eot_id|>"});
    writer.add_numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3, 1});
    writer.add_texts("tokenizer.ggml.merges", {"a b"});
    return writer;
}

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const test::GgufWriter& writer) {
    NL_ASSIGN(const GgufHeader header, GgufHeader::parse(writer.finish(), "FILE"));
    return make_gguf_tokenizer(header);
}

TEST(GgufTokenizers, HaveTheirSpecialTokensAndTemplate) {
    auto writer = small_bpe("gpt-2");
    writer.add_u32("tokenizer.ggml.eos_token_id", 3).add_u32("tokenizer.ggml.bos_token_id", UINT32_MAX);
    writer.add_text("tokenizer.chat_template", "{{ messages }}").add("tokenizer.ggml.add_eos_token", 7, "\x01");
    const auto tokenizer = *make_tokenizer(writer);
    EXPECT_EQ(tokenizer->eos(), 3);
    EXPECT_EQ(tokenizer->bos(), -1);
    EXPECT_EQ(tokenizer->chat_template(), "{{ messages }}");
    EXPECT_EQ(*tokenizer->encode("ab<|im_end|>", NL_ENCODE_ADD_SPECIAL), (std::vector<int32_t>{2, 3, 3}));
    const auto header = *GgufHeader::parse(writer.finish(), "FILE");
    EXPECT_EQ(*gguf_end_tokens(header), std::vector<int64_t>{3}) << "a piece of text is no end";
}

// Tokens and merges with a character whose last bytes are missing, with bytes that begin no character, and with a
// character in more bytes than UTF-8 allows for it.
TEST(GgufTokenizers, RefuseTextsThatAreNotUtf8) {
    for (const std::string bad : {"a\xF0\x9F", "\xFF", "\x80", "\xC0\xAF"}) {
        for (const char* kind : {"gpt2", "llama"}) {
            test::GgufWriter tokens;
            tokens.add_text("tokenizer.ggml.model", kind).add_text("tokenizer.ggml.pre", "gpt-2");
            tokens.add_texts("tokenizer.ggml.tokens", {"a", bad, "b"}).add_texts("tokenizer.ggml.merges", {"a b"});
            tokens.add_numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 3, 1});
            expect_error(make_tokenizer(tokens), NL_ERROR_BAD_MODEL,
                         {"FILE", "tokenizer.ggml.tokens has text that is not UTF-8 at 1"});
        }
        test::GgufWriter merges;
        merges.add_text("tokenizer.ggml.model", "gpt2").add_text("tokenizer.ggml.pre", "gpt-2");
        merges.add_texts("tokenizer.ggml.tokens", {"a", "b"}).add_texts("tokenizer.ggml.merges", {bad});
        expect_error(make_tokenizer(merges), NL_ERROR_BAD_MODEL, {"tokenizer.ggml.merges has text that is not UTF-8"});
    }
}

TEST(GgufTokenizers, NameWhatIsNotKnown) {
    expect_error(make_tokenizer(small_bpe("of the future")), NL_ERROR_UNSUPPORTED,
                 {"FILE", "tokenizer.ggml.pre is \"of the future\"", "llama-bpe"});
    test::GgufWriter unknown;
    unknown.add_text("tokenizer.ggml.model", "rwkv").add_texts("tokenizer.ggml.tokens", {"a"});
    expect_error(make_tokenizer(unknown), NL_ERROR_UNSUPPORTED, {"tokenizer.ggml.model is \"rwkv\""});
    expect_error(make_tokenizer({}), NL_ERROR_NOT_FOUND, {"FILE", "no tokenizer"});
    expect_error(make_tokenizer(small_bpe("gpt-2").add_u32("tokenizer.ggml.eos_token_id", 5)), NL_ERROR_BAD_MODEL,
                 {"tokenizer.ggml.eos_token_id is 5", "from 0 to 4"});
    test::GgufWriter twice;
    twice.add_text("tokenizer.ggml.model", "gpt2").add_text("tokenizer.ggml.pre", "gpt-2");
    twice.add_texts("tokenizer.ggml.tokens", {"a", "a"});
    expect_error(make_tokenizer(twice), NL_ERROR_BAD_MODEL, {"tokenizer.ggml.tokens has \"a\" twice"});
    test::GgufWriter unscored;
    unscored.add_text("tokenizer.ggml.model", "llama").add_texts("tokenizer.ggml.tokens", {"<unk>", "a"});
    expect_error(make_tokenizer(unscored), NL_ERROR_BAD_MODEL, {"tokenizer.ggml.scores is missing", "2 tokens"});
    expect_error(make_tokenizer(unscored.add_numbers<float>("tokenizer.ggml.scores", 6, {0, 1})
                                    .add_numbers<int32_t>("tokenizer.ggml.token_type", 5, {2, 9})),
                 NL_ERROR_BAD_MODEL, {"tokenizer.ggml.token_type", "not 9"});
}

}  // namespace
}  // namespace nanolith::testing
