// Model files that others change, and weights that are no numbers.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

std::string weights_of(const TinyModel& model) {
    return model.path() + "/model.safetensors";
}

// Writes a number over the file's last one, which is of lm_head.
void spoil_last_weight(const TinyModel& model, float number) {
    const std::string path = weights_of(model);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) - sizeof number));
    file.write(reinterpret_cast<const char*>(&number), sizeof number);
    ASSERT_TRUE(file.flush());
}

// Options of an engine on the test's device, with few pages.
OptionsHandle engine_options() {
    auto options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_THREADS, 2), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, 16), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, 16), NL_OK);
    return options;
}

nl_status create(const TinyModel& model, const OptionsHandle& options, EngineHandle& engine) {
    nl_engine* made = nullptr;
    const nl_status status = nl_engine_create(model.path().data(), model.path().size(), options.get(), &made);
    engine.reset(made);
    return status;
}

// What a progress callback does to the weights as soon as loading begins.
struct Spoiler {
    std::string path;
    off_t keep = -1;  // bytes; -1: it writes a byte again instead
    bool done = false;
};

int32_t spoil(void* user_data, double /*done*/) {
    auto& spoiler = *static_cast<Spoiler*>(user_data);
    if (std::exchange(spoiler.done, true)) return 0;
    if (spoiler.keep >= 0) {
        if (::truncate(spoiler.path.c_str(), spoiler.keep) != 0) return 1;
    } else {
        std::fstream file(spoiler.path, std::ios::binary | std::ios::in | std::ios::out);
        const int first = file.get();
        file.seekp(0);
        file.put(static_cast<char>(first));
    }
    return 0;
}

class ChangedFile : public ::testing::TestWithParam<int64_t> {};

TEST_P(ChangedFile, WhileItIsLoadedIsAnError) {
    for (const off_t keep : {off_t{0}, off_t{5000}, off_t{50000}, off_t{-1}}) {
        SCOPED_TRACE(keep);
        const TinyModel model;
        Spoiler spoiler{weights_of(model), keep};
        const auto options = engine_options();
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAP_WEIGHTS, GetParam()));
        NL_CHECK(nl_options_set_progress(options.get(), spoil, &spoiler));
        EngineHandle engine;
        EXPECT_FAILS(NL_ERROR_IO, "model.safetensors", create(model, options, engine));
        EXPECT_NE(std::strstr(nl_last_error(), "expected"), nullptr) << nl_last_error();
        EXPECT_TRUE(spoiler.done);
    }
}
INSTANTIATE_TEST_SUITE_P(Files, ChangedFile, ::testing::Values(0, 1));

bool is_mapped(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find(path) != std::string::npos) return true;
    return false;
}

TEST(Files, MayChangeWhenWeightsWereRead) {
    const TinyModel model;
    const auto options = engine_options();
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAP_WEIGHTS, 0));
    EngineHandle engine;
    NL_CHECK(create(model, options, engine));
    EXPECT_FALSE(is_mapped(weights_of(model)));
    const auto before = make_cache(engine.get());
    extend(before.get(), some_tokens(20));
    const Tokens expected = decode(before.get(), 8);
    ASSERT_EQ(::truncate(weights_of(model).c_str(), 0), 0);
    ASSERT_EQ(::truncate((model.path() + "/tokenizer.model").c_str(), 0), 0);
    ASSERT_EQ(::truncate((model.path() + "/config.json").c_str(), 0), 0);
    const auto after = make_cache(engine.get());
    extend(after.get(), some_tokens(20));
    EXPECT_EQ(decode(after.get(), 8), expected);
}

TEST(Files, WeightsGiveTheSameTokensMappedAndRead) {
    const TinyModel model;
    Tokens drawn[2];
    for (const int64_t mapped : {0, 1}) {
        const auto options = engine_options();
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAP_WEIGHTS, mapped));
        EngineHandle engine;
        NL_CHECK(create(model, options, engine));
        EXPECT_EQ(is_mapped(weights_of(model)), mapped == 1 && test_device() == "cpu");
        const auto cache = make_cache(engine.get());
        extend(cache.get(), some_tokens(20));
        drawn[mapped] = decode(cache.get(), 20);
    }
    EXPECT_EQ(drawn[0], drawn[1]);
}

void collect_lines(void* user_data, int32_t severity, const char* message, size_t length) {
    if (severity >= NL_LOG_WARNING) static_cast<std::string*>(user_data)->append(message, length).append("\n");
}

TEST(NotFinite, WeightsAreCountedLoggedAndRefused) {
    for (const float number : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()}) {
        for (const int64_t mapped : {0, 1}) {
            const TinyModel model;
            spoil_last_weight(model, number);
            std::string lines;
            const auto options = engine_options();
            NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAP_WEIGHTS, mapped));
            NL_CHECK(nl_options_set_log(options.get(), collect_lines, &lines));
            EngineHandle engine;
            EXPECT_FAILS(NL_ERROR_BAD_MODEL, "1 of 12800 in lm_head.weight", create(model, options, engine));
            EXPECT_NE(lines.find("lm_head.weight has 1 of 12800 elements"), std::string::npos) << lines;
            lines.clear();
            NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_ALLOW_NOT_FINITE, 1));
            NL_CHECK(create(model, options, engine));
            EXPECT_NE(lines.find("lm_head.weight has 1 of 12800 elements"), std::string::npos) << lines;
        }
    }
}

class NotFiniteLogits : public ::testing::Test {
  protected:
    void SetUp() override {
        spoil_last_weight(model_, std::numeric_limits<float>::quiet_NaN());
        const auto options = engine_options();
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_ALLOW_NOT_FINITE, 1));
        NL_CHECK(create(model_, options, engine_));
        cache_ = make_cache(engine_.get());
    }
    TinyModel model_;
    EngineHandle engine_;
    CacheHandle cache_;
};

TEST_F(NotFiniteLogits, AreAnErrorOfTheStep) {
    const Tokens tokens = some_tokens(10);
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "the token at position 10",
                 nl_cache_extend(cache_.get(), tokens.data(), tokens.size()));
    EXPECT_NE(std::strstr(nl_last_error(), "NaN"), nullptr);
    EXPECT_EQ(tokens_of(cache_.get()), Tokens());  // a failed call changes nothing
}

TEST_F(NotFiniteLogits, EndAGeneration) {
    const Tokens tokens = some_tokens(10);
    nl_generation* generation = nullptr;
    NL_CHECK(nl_generation_start(cache_.get(), tokens.data(), tokens.size(), nullptr, &generation));
    int32_t end = NL_END_NONE;
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "the token at position 10",
                 nl_generation_next(generation, -1, nullptr, 0, nullptr, nullptr, 0, nullptr, &end));
    EXPECT_EQ(end, NL_END_ERROR);
    nl_generation_free(generation);
}

TEST_F(NotFiniteLogits, OfAChunkShowWhenATokenIsDrawn) {
    const auto chunk = make_chunk(engine_.get(), some_tokens(20));
    const auto first = make_cache(engine_.get(), {chunk.get()});
    const auto second = make_cache(engine_.get(), {chunk.get()});
    nl_cache* const caches[2] = {first.get(), second.get()};
    int32_t drawn[2];
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "the token at position 20", nl_decode_step(caches, 2, drawn));
    int64_t index = -1;
    NL_CHECK(nl_last_error_detail(NL_DETAIL_INDEX, &index));
    EXPECT_EQ(index, 0);
}

// A thread that is cancelled within a call: the call goes on, and the thread ends after it.
TEST(Cancel, OfAThreadWaitsForTheCall) {
    const TinyModel model;
    const auto engine = make_engine(model);
    const auto cache = make_cache(engine.get());
    const Tokens tokens = some_tokens(20);
    extend(cache.get(), tokens);
    struct Shared {
        nl_cache* cache;
        std::atomic<int> calls = 0;
    } shared{cache.get()};
    const auto work = [](void* argument) -> void* {
        auto& mine = *static_cast<Shared*>(argument);
        for (;;) {
            int32_t token = 0;
            if (nl_cache_truncate(mine.cache, 20) != NL_OK || nl_decode_step(&mine.cache, 1, &token) != NL_OK) break;
            ++mine.calls;
            ::pthread_testcancel();
        }
        return nullptr;
    };
    for (int round = 0; round < 20; ++round) {
        const int before = shared.calls;
        pthread_t thread{};
        ASSERT_EQ(::pthread_create(&thread, nullptr, work, &shared), 0);
        while (shared.calls < before + 2) std::this_thread::yield();
        ASSERT_EQ(::pthread_cancel(thread), 0);
        void* result = nullptr;
        ASSERT_EQ(::pthread_join(thread, &result), 0);
        EXPECT_EQ(result, PTHREAD_CANCELED);
    }
    NL_CHECK(nl_cache_truncate(cache.get(), 20));
    decode(cache.get());
}

}  // namespace
}  // namespace nanolith::test
