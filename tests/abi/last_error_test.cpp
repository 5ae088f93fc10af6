// The latest error of a thread: its sentence and its numbers.
#include <cstring>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

// -77 where the latest error does not have it.
int64_t detail(int32_t which) {
    int64_t value = -77;
    const std::string before = nl_last_error();
    const nl_status status = nl_last_error_detail(which, &value);
    EXPECT_EQ(status, value == -77 ? NL_ERROR_NOT_FOUND : NL_OK);
    EXPECT_EQ(nl_last_error(), before);
    return value;
}

TEST(LastError, ABufferThatIsTooSmall) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), some_tokens(20));
    int32_t few[7];
    size_t count = 0;
    ASSERT_EQ(nl_cache_tokens(cache.get(), few, 7, &count), NL_ERROR_BUFFER_TOO_SMALL);
    EXPECT_EQ(detail(NL_DETAIL_NEEDED), 20);
    EXPECT_EQ(detail(NL_DETAIL_AVAILABLE), 7);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), -77);
}

TEST(LastError, AnElementOfAList) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const EngineHandle other = make_engine(model);
    const CacheHandle a = make_cache(engine.get());
    const CacheHandle b = make_cache(engine.get());
    const CacheHandle strange = make_cache(other.get());
    int32_t tokens[4];
    nl_cache* missing[] = {a.get(), nullptr};
    ASSERT_EQ(nl_decode_step(missing, 2, tokens), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), 1);
    nl_cache* twice[] = {a.get(), b.get(), a.get()};
    ASSERT_EQ(nl_decode_step(twice, 3, tokens), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), 2);
    nl_cache* mixed[] = {a.get(), b.get(), strange.get()};
    ASSERT_EQ(nl_decode_step(mixed, 3, tokens), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), 2);
    EXPECT_EQ(detail(NL_DETAIL_NEEDED), -77);

    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(5));
    const nl_chunk* chunks[] = {chunk.get(), nullptr};
    nl_cache* made = nullptr;
    ASSERT_EQ(nl_cache_create(engine.get(), nullptr, chunks, 2, &made), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), 1);
    // The next error has no numbers of the one before.
    ASSERT_EQ(nl_cache_create(nullptr, nullptr, chunks, 1, &made), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(detail(NL_DETAIL_INDEX), -77);
}

TEST(LastError, DetailsThatThereAreNot) {
    nl_options* made = nullptr;
    ASSERT_EQ(nl_options_create(99, &made), NL_ERROR_INVALID_ARGUMENT);
    for (const int32_t which : {INT32_MIN, -1, 0, 1, 2, 3, 4, INT32_MAX}) EXPECT_EQ(detail(which), -77);
    const std::string before = nl_last_error();
    EXPECT_EQ(nl_last_error_detail(NL_DETAIL_INDEX, nullptr), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nl_last_error(), before);
}

TEST(LastError, IsOfTheThread) {
    nl_options* made = nullptr;
    ASSERT_EQ(nl_options_create(99, &made), NL_ERROR_INVALID_ARGUMENT);
    const std::string before = nl_last_error();
    std::thread([] {
        EXPECT_STREQ(nl_last_error(), "");
        size_t length = 0;
        EXPECT_EQ(nl_option_describe(NL_OPTIONS_CACHE, nullptr, 0, &length), NL_ERROR_BUFFER_TOO_SMALL);
        EXPECT_EQ(detail(NL_DETAIL_NEEDED), static_cast<int64_t>(length));
    }).join();
    EXPECT_EQ(nl_last_error(), before);
    EXPECT_EQ(detail(NL_DETAIL_NEEDED), -77);
}

// A sentence longer than there is room for ends with a whole character.
TEST(LastError, LongSentencesAreCutBetweenCharacters) {
    for (size_t shift = 0; shift < 3; ++shift) {
        std::string path = "/" + std::string(shift, 'x');
        while (path.size() < 4000) path += "\xE2\x82\xAC";  // the euro sign, three bytes
        nl_engine* engine = nullptr;
        ASSERT_NE(nl_engine_create(path.data(), path.size(), nullptr, &engine), NL_OK);
        const std::string sentence = nl_last_error();
        EXPECT_LE(sentence.size(), 1023U);
        EXPECT_GT(sentence.size(), 1019U);
        EXPECT_EQ(sentence.substr(sentence.size() - 3), "\xE2\x82\xAC") << shift;
    }
}

}  // namespace
}  // namespace nanolith::test
