// The tokenizer functions through the ABI. What they compute is tested in tests/unit.
#include <filesystem>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

class Text : public testing::Test {
  protected:
    void SetUp() override {
        nl_tokenizer* tokenizer = nullptr;
        NL_CHECK(nl_tokenizer_load(model_.path().data(), model_.path().size(), &tokenizer));
        tokenizer_.reset(tokenizer);
    }

    TinyModel model_;
    TokenizerHandle tokenizer_;
    size_t size_ = 77;
    int64_t value_ = 77;
    int32_t token_ = 77;
};

TEST_F(Text, RefusesWrongArguments) {
    nl_tokenizer* tokenizer = nullptr;
    nl_text_stream* stream = nullptr;
    const nl_tokenizer* good = tokenizer_.get();
    EXPECT_INVALID("path", nl_tokenizer_load(nullptr, 3, &tokenizer));
    EXPECT_INVALID("path_length", nl_tokenizer_load("x", 0, &tokenizer));
    EXPECT_INVALID("path_length", nl_tokenizer_load("x", SIZE_MAX, &tokenizer));
    EXPECT_INVALID("path", nl_tokenizer_load("a\0b", 3, &tokenizer));
    EXPECT_INVALID("tokenizer", nl_tokenizer_load("x", 1, nullptr));
    EXPECT_INVALID("tokenizer", nl_tokenizer_encode(nullptr, "a", 1, 0, nullptr, 0, &size_));
    EXPECT_INVALID("text", nl_tokenizer_encode(good, nullptr, 1, 0, nullptr, 0, &size_));
    EXPECT_INVALID("text_length", nl_tokenizer_encode(good, "a", SIZE_MAX, 0, nullptr, 0, &size_));
    EXPECT_INVALID("text_length", nl_tokenizer_encode(good, "a", size_t{1} << 40U, 0, nullptr, 0, &size_));
    EXPECT_INVALID("flags is 0x20", nl_tokenizer_encode(good, "a", 1, 32, nullptr, 0, &size_));
    EXPECT_INVALID("flags", nl_tokenizer_encode(good, "a", 1, UINT32_MAX, nullptr, 0, &size_));
    EXPECT_INVALID("count", nl_tokenizer_encode(good, "a", 1, 0, nullptr, 0, nullptr));
    EXPECT_INVALID("tokenizer", nl_tokenizer_decode(nullptr, nullptr, 0, nullptr, 0, &size_));
    EXPECT_INVALID("tokens", nl_tokenizer_decode(good, nullptr, 1, nullptr, 0, &size_));
    EXPECT_INVALID("num_tokens", nl_tokenizer_decode(good, &token_, SIZE_MAX, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_tokenizer_decode(good, nullptr, 0, nullptr, 0, nullptr));
    EXPECT_INVALID("tokenizer", nl_tokenizer_query(nullptr, NL_TOKENIZER_BOS, &value_));
    EXPECT_INVALID("value", nl_tokenizer_query(good, NL_TOKENIZER_BOS, nullptr));
    for (const int32_t fact : {-1, 0, 6}) EXPECT_INVALID("fact", nl_tokenizer_query(good, fact, &value_));
    EXPECT_INVALID("tokenizer", nl_tokenizer_find(nullptr, "a", 1, &token_));
    EXPECT_INVALID("piece", nl_tokenizer_find(good, nullptr, 1, &token_));
    EXPECT_INVALID("token", nl_tokenizer_find(good, "a", 1, nullptr));
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "<|none|>", nl_tokenizer_find(good, "<|none|>", 8, &token_));
    EXPECT_INVALID("tokenizer", nl_tokenizer_piece(nullptr, 1, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_tokenizer_piece(good, 1, nullptr, 0, nullptr));
    EXPECT_INVALID("token is -1", nl_tokenizer_piece(good, -1, nullptr, 0, &size_));
    EXPECT_INVALID("token is 399", nl_tokenizer_piece(good, 399, nullptr, 0, &size_));
    EXPECT_INVALID("tokenizer", nl_text_stream_create(nullptr, &stream));
    EXPECT_INVALID("stream", nl_text_stream_create(good, nullptr));
    EXPECT_INVALID("stream", nl_text_stream_push(nullptr, 1, nullptr, 0, &size_));
    EXPECT_INVALID("stream", nl_text_stream_finish(nullptr, nullptr, 0, &size_));
    EXPECT_EQ(tokenizer, nullptr);
    EXPECT_EQ(stream, nullptr);
    EXPECT_EQ(size_, 77U);
    EXPECT_EQ(value_, 77);
    EXPECT_EQ(token_, 77);
}

TEST_F(Text, StreamArguments) {
    nl_text_stream* made = nullptr;
    NL_CHECK(nl_text_stream_create(tokenizer_.get(), &made));
    const TextStreamHandle stream(made);
    EXPECT_INVALID("length", nl_text_stream_push(stream.get(), 1, nullptr, 0, nullptr));
    EXPECT_INVALID("token is -1", nl_text_stream_push(stream.get(), -1, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_text_stream_finish(stream.get(), nullptr, 0, nullptr));
    EXPECT_EQ(size_, 77U);
}

TEST_F(Text, Facts) {
    NL_CHECK(nl_tokenizer_query(tokenizer_.get(), NL_TOKENIZER_BOS, &value_));
    EXPECT_EQ(value_, 1);
    NL_CHECK(nl_tokenizer_query(tokenizer_.get(), NL_TOKENIZER_EOS, &value_));
    EXPECT_EQ(value_, 2);
    NL_CHECK(nl_tokenizer_query(tokenizer_.get(), NL_TOKENIZER_UNK, &value_));
    EXPECT_EQ(value_, 0);
    NL_CHECK(nl_tokenizer_query(tokenizer_.get(), NL_TOKENIZER_PAD, &value_));
    EXPECT_EQ(value_, -1);
}

TEST_F(Text, EncodesWithBosAndStreamsBack) {
    const std::string text =
        "Gr\xC3\xB6\xC3\x9F"
        "e near \xE6\xBC\xA2\xE5\xAD\x97";
    Tokens tokens(100);
    NL_CHECK(
        nl_tokenizer_encode(tokenizer_.get(), text.data(), text.size(), NL_ENCODE_ADD_BOS, tokens.data(), 100, &size_));
    tokens.resize(size_);
    EXPECT_EQ(tokens[0], 1);
    nl_text_stream* made = nullptr;
    NL_CHECK(nl_text_stream_create(tokenizer_.get(), &made));
    const TextStreamHandle stream(made);
    tokenizer_.reset();  // the stream keeps what it needs
    std::string back;
    char buffer[64];
    for (const int32_t token : tokens) {
        NL_CHECK(nl_text_stream_push(stream.get(), token, buffer, sizeof buffer, &size_));
        back.append(buffer, size_);
    }
    NL_CHECK(nl_text_stream_finish(stream.get(), buffer, sizeof buffer, &size_));
    back.append(buffer, size_);
    EXPECT_EQ(back, text);
}

TEST_F(Text, AFolderWithout) {
    std::filesystem::remove(model_.path() + "/tokenizer.model");
    nl_tokenizer* tokenizer = nullptr;
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, model_.path(),
                 nl_tokenizer_load(model_.path().data(), model_.path().size(), &tokenizer));
    const EngineHandle engine = make_engine(model_);
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "tokenizer", nl_engine_tokenizer(engine.get(), &tokenizer));
    EXPECT_EQ(tokenizer, nullptr);
}

}  // namespace
}  // namespace nanolith::test
