// Output to a caller's buffer: the needed size always comes back, and nothing is written where it does not fit.
#include <algorithm>
#include <functional>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

// Calls `get(buffer, capacity, &size)` with every kind of capacity.
template <typename T>
void check_buffer_rules(const std::function<nl_status(T*, size_t, size_t*)>& get, T filler) {
    size_t needed = 0;
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0", get(nullptr, 0, &needed));
    ASSERT_GT(needed, 0U);
    std::vector<T> buffer(needed + 3, filler);
    size_t size = 0;
    EXPECT_EQ(get(buffer.data(), needed - 1, &size), NL_ERROR_BUFFER_TOO_SMALL);
    EXPECT_EQ(size, needed);
    EXPECT_EQ(buffer, std::vector<T>(needed + 3, filler));
    size = 0;
    EXPECT_INVALID("buffer", get(nullptr, needed, &size));

    size = 0;
    EXPECT_EQ(get(buffer.data(), needed, &size), NL_OK) << nl_last_error();
    EXPECT_EQ(size, needed);
    EXPECT_NE(buffer, std::vector<T>(needed + 3, filler));
    EXPECT_EQ(std::count(buffer.begin() + needed, buffer.end(), filler), 3);
    const std::vector<T> exact = buffer;
    std::fill(buffer.begin(), buffer.end(), filler);
    EXPECT_EQ(get(buffer.data(), buffer.size(), &size), NL_OK) << nl_last_error();
    EXPECT_EQ(size, needed);
    EXPECT_EQ(buffer, exact);
}

class Buffers : public testing::Test {
  protected:
    void SetUp() override {
        nl_tokenizer* tokenizer = nullptr;
        NL_CHECK(nl_engine_tokenizer(engine_.get(), &tokenizer));
        tokenizer_.reset(tokenizer);
    }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    TokenizerHandle tokenizer_;
};

TEST_F(Buffers, Device) {
    check_buffer_rules<char>([&](char* buffer, size_t capacity,
                                 size_t* size) { return nl_engine_device(engine_.get(), buffer, capacity, size); },
                             '#');
}

TEST_F(Buffers, FactsAsJson) {
    check_buffer_rules<char>([&](char* buffer, size_t capacity,
                                 size_t* size) { return nl_engine_describe(engine_.get(), buffer, capacity, size); },
                             '#');
    const CacheHandle cache = make_cache(engine_.get());
    check_buffer_rules<char>([&](char* buffer, size_t capacity,
                                 size_t* size) { return nl_cache_describe(cache.get(), buffer, capacity, size); },
                             '#');
}

TEST_F(Buffers, Metrics) {
    check_buffer_rules<char>([&](char* buffer, size_t capacity,
                                 size_t* size) { return nl_engine_metrics(engine_.get(), buffer, capacity, size); },
                             '#');
}

TEST_F(Buffers, EncodeAndDecode) {
    const std::string text = "the lamp near the river";
    check_buffer_rules<int32_t>(
        [&](int32_t* buffer, size_t capacity, size_t* size) {
            return nl_tokenizer_encode(tokenizer_.get(), text.data(), text.size(), 0, buffer, capacity, size);
        },
        -5);
    const Tokens tokens = {300, 301, 302};
    check_buffer_rules<char>(
        [&](char* buffer, size_t capacity, size_t* size) {
            return nl_tokenizer_decode(tokenizer_.get(), tokens.data(), tokens.size(), buffer, capacity, size);
        },
        '#');
}

TEST_F(Buffers, Piece) {
    check_buffer_rules<char>(
        [&](char* buffer, size_t capacity, size_t* size) {
            return nl_tokenizer_piece(tokenizer_.get(), 300, buffer, capacity, size);
        },
        '#');
}

TEST_F(Buffers, CacheTokensAndLogits) {
    const CacheHandle cache = make_cache(engine_.get());
    extend(cache.get(), some_tokens(21));
    check_buffer_rules<int32_t>([&](int32_t* buffer, size_t capacity,
                                    size_t* size) { return nl_cache_tokens(cache.get(), buffer, capacity, size); },
                                -5);
    check_buffer_rules<float>([&](float* buffer, size_t capacity,
                                  size_t* size) { return nl_cache_logits(cache.get(), buffer, capacity, size); },
                              1e30F);
}

TEST_F(Buffers, NothingNeedsNoBuffer) {
    size_t size = 77;
    NL_CHECK(nl_tokenizer_decode(tokenizer_.get(), nullptr, 0, nullptr, 0, &size));
    EXPECT_EQ(size, 0U);
    size = 77;
    NL_CHECK(nl_tokenizer_encode(tokenizer_.get(), nullptr, 0, 0, nullptr, 0, &size));
    EXPECT_EQ(size, 0U);
    const CacheHandle cache = make_cache(engine_.get());
    size = 77;
    NL_CHECK(nl_cache_tokens(cache.get(), nullptr, 0, &size));
    EXPECT_EQ(size, 0U);
}

TEST_F(Buffers, ATextStreamTakesTheSameTokenAgain) {
    nl_text_stream* made = nullptr;
    NL_CHECK(nl_text_stream_create(tokenizer_.get(), &made));
    const TextStreamHandle stream(made);
    int32_t token = 0;
    NL_CHECK(nl_tokenizer_find(tokenizer_.get(), "<0x41>", 6, &token));
    size_t size = 0;
    char text[4] = "###";
    EXPECT_EQ(nl_text_stream_push(stream.get(), token, nullptr, 0, &size), NL_ERROR_BUFFER_TOO_SMALL);
    EXPECT_EQ(size, 1U);
    NL_CHECK(nl_text_stream_push(stream.get(), token, text, sizeof text, &size));
    EXPECT_EQ(std::string(text, size), "A");
    NL_CHECK(nl_tokenizer_find(tokenizer_.get(), "<0xE2>", 6, &token));
    NL_CHECK(nl_text_stream_push(stream.get(), token, nullptr, 0, &size));
    EXPECT_EQ(size, 0U);
    EXPECT_EQ(nl_text_stream_finish(stream.get(), text, 2, &size), NL_ERROR_BUFFER_TOO_SMALL);
    EXPECT_EQ(size, 3U);
    NL_CHECK(nl_text_stream_finish(stream.get(), text, sizeof text, &size));
    EXPECT_EQ(std::string(text, size), "\xEF\xBF\xBD");
    NL_CHECK(nl_text_stream_finish(stream.get(), nullptr, 0, &size));
    EXPECT_EQ(size, 0U);
}

}  // namespace
}  // namespace nanolith::test
