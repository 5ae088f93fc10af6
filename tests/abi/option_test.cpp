// Options: every one at, below and above its bounds, of the wrong kind and the wrong type, and what is read back.
#include <cmath>
#include <limits>
#include <set>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

constexpr int32_t kKinds[] = {NL_OPTIONS_ENGINE, NL_OPTIONS_CACHE, NL_OPTIONS_SAMPLING, NL_OPTIONS_GENERATION};
constexpr int64_t kMostInt32 = 2147483647;

// As the header's comments say.
struct IntegerOption {
    int32_t kind, key;
    const char* name;
    int64_t least, most, standard;
    bool list = false;
};
constexpr IntegerOption kIntegers[] = {
    {NL_OPTIONS_ENGINE, NL_OPTION_DTYPE, "DTYPE", 0, 3, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_KV_DTYPE, "KV_DTYPE", 0, 4, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_PAGE_SIZE, "PAGE_SIZE", 16, 256, 64},
    {NL_OPTIONS_ENGINE, NL_OPTION_NUM_PAGES, "NUM_PAGES", 0, kMostInt32, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_MAX_CONTEXT, "MAX_CONTEXT", 0, kMostInt32, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_MAX_BATCH_TOKENS, "MAX_BATCH_TOKENS", 1, 65536, 2048},
    {NL_OPTIONS_ENGINE, NL_OPTION_MAX_OUTPUT_ROWS, "MAX_OUTPUT_ROWS", 1, 4096, 256},
    {NL_OPTIONS_ENGINE, NL_OPTION_QUEUE_LIMIT, "QUEUE_LIMIT", 1, 1048576, 4096},
    {NL_OPTIONS_ENGINE, NL_OPTION_THREADS, "THREADS", 0, 1024, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_WARM_UP, "WARM_UP", 0, 1, 1},
    {NL_OPTIONS_ENGINE, NL_OPTION_BATCH_INVARIANT, "BATCH_INVARIANT", 0, 1, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_PROFILE, "PROFILE", 0, 1, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_MAP_WEIGHTS, "MAP_WEIGHTS", 0, 1, 1},
    {NL_OPTIONS_ENGINE, NL_OPTION_ALLOW_NOT_FINITE, "ALLOW_NOT_FINITE", 0, 1, 0},
    {NL_OPTIONS_ENGINE, NL_OPTION_PROFILE, "PROFILE", 0, 1, 0},
    {NL_OPTIONS_CACHE, NL_OPTION_COMPOSITION, "COMPOSITION", 0, 2, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_TOP_K, "TOP_K", 0, kMostInt32, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_SEED, "SEED", INT64_MIN, INT64_MAX, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_PENALTY_WINDOW, "PENALTY_WINDOW", 1, kMostInt32, 64},
    {NL_OPTIONS_SAMPLING, NL_OPTION_BANNED_TOKEN, "BANNED_TOKEN", 0, kMostInt32, 0, true},
    {NL_OPTIONS_SAMPLING, NL_OPTION_ALLOWED_TOKEN, "ALLOWED_TOKEN", 0, kMostInt32, 0, true},
    {NL_OPTIONS_SAMPLING, NL_OPTION_DRY_ALLOWED_LENGTH, "DRY_ALLOWED_LENGTH", 1, kMostInt32, 2},
    {NL_OPTIONS_SAMPLING, NL_OPTION_DRY_WINDOW, "DRY_WINDOW", 1, kMostInt32, 1024},
    {NL_OPTIONS_SAMPLING, NL_OPTION_FILTER, "FILTER", 1, 6, 0, true},
    {NL_OPTIONS_GENERATION, NL_OPTION_MAX_TOKENS, "MAX_TOKENS", 0, kMostInt32, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_MIN_TOKENS, "MIN_TOKENS", 0, kMostInt32, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_STOP_TOKEN, "STOP_TOKEN", 0, kMostInt32, 0, true},
    {NL_OPTIONS_GENERATION, NL_OPTION_END_TOKENS, "END_TOKENS", 0, 1, 1},
    {NL_OPTIONS_GENERATION, NL_OPTION_DEADLINE_MS, "DEADLINE_MS", 0, kMostInt32, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_PRIORITY, "PRIORITY", -100, 100, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_BUFFER_TOKENS, "BUFFER_TOKENS", 1, 1048576, 1024},
    {NL_OPTIONS_GENERATION, NL_OPTION_TEXT, "TEXT", 0, 1, 1},
    {NL_OPTIONS_GENERATION, NL_OPTION_LOGPROBS, "LOGPROBS", 0, 1, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_TOP_LOGPROBS, "TOP_LOGPROBS", 0, 20, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_JSON_OBJECT, "JSON_OBJECT", 0, 1, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_CONSTRAINED_TOKENS, "CONSTRAINED_TOKENS", 0, kMostInt32, 0},
    {NL_OPTIONS_GENERATION, NL_OPTION_JUMP_AHEAD, "JUMP_AHEAD", 0, 1, 0},
};

struct FloatOption {
    int32_t kind, key;
    const char* name;
    double least, most, standard;
};
constexpr FloatOption kFloats[] = {
    {NL_OPTIONS_ENGINE, NL_OPTION_STEP_MS, "STEP_MS", 0, 1000000, 0},
    {NL_OPTIONS_CACHE, NL_OPTION_BLEND_SHARE, "BLEND_SHARE", 0, 1, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_TEMPERATURE, "TEMPERATURE", 0, 3e38, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_TOP_P, "TOP_P", 1e-30, 1, 1},
    {NL_OPTIONS_SAMPLING, NL_OPTION_MIN_P, "MIN_P", 0, 1, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_REPETITION_PENALTY, "REPETITION_PENALTY", 1e-3, 1000, 1},
    {NL_OPTIONS_SAMPLING, NL_OPTION_FREQUENCY_PENALTY, "FREQUENCY_PENALTY", -100, 100, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_PRESENCE_PENALTY, "PRESENCE_PENALTY", -100, 100, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_DRY_MULTIPLIER, "DRY_MULTIPLIER", 0, 1e6, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_DRY_BASE, "DRY_BASE", 1, 100, 1.75},
    {NL_OPTIONS_SAMPLING, NL_OPTION_XTC_PROBABILITY, "XTC_PROBABILITY", 0, 1, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_XTC_THRESHOLD, "XTC_THRESHOLD", 1e-30, 1, 0.1},
    {NL_OPTIONS_SAMPLING, NL_OPTION_TYPICAL_P, "TYPICAL_P", 1e-30, 1, 1},
    {NL_OPTIONS_SAMPLING, NL_OPTION_MIROSTAT_TAU, "MIROSTAT_TAU", 0, 1000, 0},
    {NL_OPTIONS_SAMPLING, NL_OPTION_MIROSTAT_ETA, "MIROSTAT_ETA", 1e-30, 1, 0.1},
};

struct TextOption {
    int32_t kind, key;
    const char* name;
    size_t least, most;
    bool list;
};
constexpr TextOption kTexts[] = {
    {NL_OPTIONS_ENGINE, NL_OPTION_DEVICE, "DEVICE", 1, 64, false},
    {NL_OPTIONS_SAMPLING, NL_OPTION_BIASED_TOKEN, "BIASED_TOKEN", 3, 64, true},
    {NL_OPTIONS_GENERATION, NL_OPTION_STOP_TEXT, "STOP_TEXT", 1, 1024, true},
};

int64_t integer(const nl_options* options, int32_t key, size_t index = 0) {
    int64_t value = -77;
    EXPECT_EQ(nl_options_get_int(options, key, index, &value), NL_OK) << nl_last_error();
    return value;
}

double number(const nl_options* options, int32_t key) {
    double value = -77;
    EXPECT_EQ(nl_options_get_float(options, key, 0, &value), NL_OK) << nl_last_error();
    return value;
}

std::string text(const nl_options* options, int32_t key, size_t index = 0) {
    char buffer[2048];
    size_t length = 0;
    EXPECT_EQ(nl_options_get_text(options, key, index, buffer, sizeof buffer, &length), NL_OK) << nl_last_error();
    return {buffer, length};
}

size_t count(const nl_options* options, int32_t key) {
    size_t value = 77;
    EXPECT_EQ(nl_options_get_count(options, key, &value), NL_OK) << nl_last_error();
    return value;
}

nl_status set_text(nl_options* options, int32_t key, const std::string& value) {
    return nl_options_set_text(options, key, value.data(), value.size());
}

TEST(Options, IntegersHaveTheBoundsOfTheHeader) {
    for (const IntegerOption& option : kIntegers) {
        int64_t least = -77;
        int64_t most = -77;
        int64_t standard = -77;
        NL_CHECK(nl_option_bounds_int(option.key, &least, &most, &standard));
        EXPECT_EQ(least, option.least) << option.name;
        EXPECT_EQ(most, option.most) << option.name;
        EXPECT_EQ(standard, option.standard) << option.name;
    }
}

TEST(Options, IntegersAreSetWithinTheirBoundsAlone) {
    for (const IntegerOption& option : kIntegers) {
        SCOPED_TRACE(option.name);
        const OptionsHandle options = make_options(option.kind);
        EXPECT_EQ(count(options.get(), option.key), option.list ? 0U : 1U);
        if (!option.list) {
            EXPECT_EQ(integer(options.get(), option.key), option.standard);
        }
        size_t elements = 0;
        for (const int64_t value : {option.least, option.most}) {
            NL_CHECK(nl_options_set_int(options.get(), option.key, value));
            EXPECT_EQ(integer(options.get(), option.key, option.list ? elements++ : 0), value);
        }
        const auto refused = [&](int64_t value) {
            EXPECT_INVALID("NL_OPTION_" + std::string(option.name) + " is " + std::to_string(value) + ": expected ",
                           nl_options_set_int(options.get(), option.key, value));
            const std::string sentence = nl_last_error();
            EXPECT_TRUE(sentence.ends_with(std::to_string(option.least) + " to " + std::to_string(option.most)))
                << sentence;
            EXPECT_EQ(integer(options.get(), option.key, option.list ? elements - 1 : 0), option.most);
        };
        if (option.least > INT64_MIN) refused(option.least - 1);
        if (option.least > INT64_MIN) refused(INT64_MIN);
        if (option.most < INT64_MAX) refused(option.most + 1);
        if (option.most < INT64_MAX) refused(INT64_MAX);
        EXPECT_EQ(count(options.get(), option.key), option.list ? elements : 1U);
        NL_CHECK(nl_options_reset(options.get(), option.key));
        EXPECT_EQ(count(options.get(), option.key), option.list ? 0U : 1U);
        if (!option.list) {
            EXPECT_EQ(integer(options.get(), option.key), option.standard);
        }
    }
}

TEST(Options, PageSizesArePowersOfTwo) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    for (int64_t size = 16; size <= 256; ++size) {
        const bool power = (size & (size - 1)) == 0;
        if (power) {
            NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, size));
        } else {
            EXPECT_INVALID("expected a power of two from 16 to 256",
                           nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, size));
        }
    }
}

TEST(Options, FloatsAreSetWithinTheirBoundsAlone) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const FloatOption& option : kFloats) {
        SCOPED_TRACE(option.name);
        double least = -77;
        double most = -77;
        double standard = -77;
        NL_CHECK(nl_option_bounds_float(option.key, &least, &most, &standard));
        EXPECT_EQ(least, option.least);
        EXPECT_EQ(most, option.most);
        EXPECT_EQ(standard, option.standard);
        const OptionsHandle options = make_options(option.kind);
        EXPECT_EQ(number(options.get(), option.key), option.standard);
        for (const double value : {option.least, (option.least + option.most) / 2, option.most}) {
            NL_CHECK(nl_options_set_float(options.get(), option.key, value));
            EXPECT_EQ(number(options.get(), option.key), value);
        }
        for (const double value : {std::nextafter(option.least, -kInfinity), std::nextafter(option.most, kInfinity),
                                   -kInfinity, kInfinity, std::nan("")}) {
            EXPECT_INVALID("NL_OPTION_" + std::string(option.name) + " is ",
                           nl_options_set_float(options.get(), option.key, value));
            EXPECT_EQ(number(options.get(), option.key), option.most);
        }
        NL_CHECK(nl_options_reset(options.get(), option.key));
        EXPECT_EQ(number(options.get(), option.key), option.standard);
    }
}

TEST(Options, TextsAreSetWithinTheirLengthsAlone) {
    for (const TextOption& option : kTexts) {
        SCOPED_TRACE(option.name);
        const OptionsHandle options = make_options(option.kind);
        size_t elements = 0;
        for (const size_t length : {option.least, option.most}) {
            const std::string value(length, 'x');
            NL_CHECK(set_text(options.get(), option.key, value));
            EXPECT_EQ(text(options.get(), option.key, option.list ? elements++ : 0), value);
        }
        for (const size_t length : {option.least - 1, option.most + 1}) {
            EXPECT_INVALID("NL_OPTION_" + std::string(option.name) + " has " + std::to_string(length) + " bytes",
                           set_text(options.get(), option.key, std::string(length, 'y')));
        }
        EXPECT_INVALID("text is NULL", nl_options_set_text(options.get(), option.key, nullptr, 1));
        EXPECT_INVALID("text_length", nl_options_set_text(options.get(), option.key, "x", SIZE_MAX));
        EXPECT_EQ(text(options.get(), option.key, option.list ? elements - 1 : 0), std::string(option.most, 'x'));
        EXPECT_EQ(count(options.get(), option.key), option.list ? elements : 1U);
        size_t length = 0;
        EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0",
                     nl_options_get_text(options.get(), option.key, 0, nullptr, 0, &length));
    }
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(text(options.get(), NL_OPTION_DEVICE), "auto");
    NL_CHECK(set_text(options.get(), NL_OPTION_DEVICE, "cpu"));
    NL_CHECK(nl_options_reset(options.get(), NL_OPTION_DEVICE));
    EXPECT_EQ(text(options.get(), NL_OPTION_DEVICE), "auto");
}

TEST(Options, ListsKeepTheirElementsInOrder) {
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    for (int64_t token = 0; token < 1024; ++token)
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_STOP_TOKEN, token * 3));
    EXPECT_INVALID("NL_OPTION_STOP_TOKEN has 1024 elements",
                   nl_options_set_int(options.get(), NL_OPTION_STOP_TOKEN, 1));
    ASSERT_EQ(count(options.get(), NL_OPTION_STOP_TOKEN), 1024U);
    for (size_t i = 0; i < 1024; ++i)
        ASSERT_EQ(integer(options.get(), NL_OPTION_STOP_TOKEN, i), static_cast<int64_t>(i) * 3);
    int64_t value = 77;
    EXPECT_INVALID("index is 1024: expected less than 1024",
                   nl_options_get_int(options.get(), NL_OPTION_STOP_TOKEN, 1024, &value));
    EXPECT_INVALID("index is 1: expected less than 1",
                   nl_options_get_int(options.get(), NL_OPTION_MAX_TOKENS, 1, &value));
    EXPECT_EQ(value, 77);
    for (const char* stop : {"first", "second"}) NL_CHECK(set_text(options.get(), NL_OPTION_STOP_TEXT, stop));
    EXPECT_EQ(text(options.get(), NL_OPTION_STOP_TEXT, 0), "first");
    EXPECT_EQ(text(options.get(), NL_OPTION_STOP_TEXT, 1), "second");
}

// Each function with each option of another type.
TEST(Options, AnOptionTakesItsTypeAlone) {
    for (const IntegerOption& option : kIntegers) {
        const OptionsHandle options = make_options(option.kind);
        const std::string named = "NL_OPTION_" + std::string(option.name) + ", which is a";
        double least = 0;
        size_t length = 0;
        EXPECT_INVALID(named, nl_options_set_float(options.get(), option.key, 1));
        EXPECT_INVALID(named, nl_options_set_text(options.get(), option.key, "cpu", 3));
        EXPECT_INVALID(named, nl_options_get_float(options.get(), option.key, 0, &least));
        EXPECT_INVALID(named, nl_options_get_text(options.get(), option.key, 0, nullptr, 0, &length));
        EXPECT_INVALID(named, nl_option_bounds_float(option.key, &least, &least, &least));
    }
    for (const FloatOption& option : kFloats) {
        const OptionsHandle options = make_options(option.kind);
        const std::string named = "NL_OPTION_" + std::string(option.name) + ", which is a float";
        int64_t least = 0;
        EXPECT_INVALID(named, nl_options_set_int(options.get(), option.key, 1));
        EXPECT_INVALID(named, nl_options_set_text(options.get(), option.key, "1", 1));
        EXPECT_INVALID(named, nl_options_get_int(options.get(), option.key, 0, &least));
        EXPECT_INVALID(named, nl_option_bounds_int(option.key, &least, &least, &least));
    }
    for (const TextOption& option : kTexts) {
        const OptionsHandle options = make_options(option.kind);
        int64_t least = 0;
        EXPECT_INVALID(option.name, nl_options_set_int(options.get(), option.key, 1));
        EXPECT_INVALID(option.name, nl_options_set_float(options.get(), option.key, 1));
        EXPECT_INVALID(option.name, nl_option_bounds_int(option.key, &least, &least, &least));
    }
}

TEST(Options, AnOptionIsOfItsKindAlone) {
    for (const int32_t kind : kKinds) {
        const OptionsHandle options = make_options(kind);
        for (const IntegerOption& option : kIntegers) {
            if (option.kind == kind) continue;
            int64_t value = 0;
            EXPECT_INVALID("NL_OPTION_" + std::string(option.name) + ", of NL_OPTIONS_",
                           nl_options_set_int(options.get(), option.key, option.least));
            EXPECT_INVALID(option.name, nl_options_get_int(options.get(), option.key, 0, &value));
            EXPECT_INVALID(option.name, nl_options_reset(options.get(), option.key));
        }
        for (const FloatOption& option : kFloats) {
            if (option.kind == kind) continue;
            EXPECT_INVALID(option.name, nl_options_set_float(options.get(), option.key, option.least));
        }
        for (const TextOption& option : kTexts) {
            if (option.kind == kind) continue;
            EXPECT_INVALID(option.name, set_text(options.get(), option.key, "x"));
        }
        for (const int32_t unknown : {INT32_MIN, -1, 0, 99, 102, 299, 399, INT32_MAX}) {
            EXPECT_INVALID("option is " + std::to_string(unknown) + ": expected one of NL_OPTION_*",
                           nl_options_set_int(options.get(), unknown, 1));
        }
        const bool engine = kind == NL_OPTIONS_ENGINE;
        EXPECT_EQ(nl_options_set_log(options.get(), nullptr, nullptr), engine ? NL_OK : NL_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(nl_options_set_progress(options.get(), nullptr, nullptr), engine ? NL_OK : NL_ERROR_INVALID_ARGUMENT);
    }
}

TEST(Options, NullAndUnknownKinds) {
    EXPECT_INVALID("options is NULL", nl_options_create(NL_OPTIONS_ENGINE, nullptr));
    nl_options* made = nullptr;
    for (const int32_t kind : {-1, 0, 5, INT32_MAX}) {
        EXPECT_INVALID("kind is " + std::to_string(kind), nl_options_create(kind, &made));
        size_t length = 0;
        EXPECT_INVALID("kind is " + std::to_string(kind), nl_option_describe(kind, nullptr, 0, &length));
    }
    EXPECT_EQ(made, nullptr);
    nl_options_free(nullptr);
    int64_t value = 0;
    double real = 0;
    size_t size = 0;
    EXPECT_INVALID("options", nl_options_set_int(nullptr, NL_OPTION_PAGE_SIZE, 16));
    EXPECT_INVALID("options", nl_options_set_float(nullptr, NL_OPTION_STEP_MS, 1));
    EXPECT_INVALID("options", nl_options_set_text(nullptr, NL_OPTION_DEVICE, "cpu", 3));
    EXPECT_INVALID("options", nl_options_get_int(nullptr, NL_OPTION_PAGE_SIZE, 0, &value));
    EXPECT_INVALID("options", nl_options_get_float(nullptr, NL_OPTION_STEP_MS, 0, &real));
    EXPECT_INVALID("options", nl_options_get_text(nullptr, NL_OPTION_DEVICE, 0, nullptr, 0, &size));
    EXPECT_INVALID("options", nl_options_get_count(nullptr, NL_OPTION_PAGE_SIZE, &size));
    EXPECT_INVALID("options", nl_options_reset(nullptr, NL_OPTION_PAGE_SIZE));
    EXPECT_INVALID("options", nl_options_set_log(nullptr, nullptr, nullptr));
    EXPECT_INVALID("options", nl_options_set_progress(nullptr, nullptr, nullptr));
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_INVALID("value", nl_options_get_int(options.get(), NL_OPTION_PAGE_SIZE, 0, nullptr));
    EXPECT_INVALID("value", nl_options_get_float(options.get(), NL_OPTION_STEP_MS, 0, nullptr));
    EXPECT_INVALID("length", nl_options_get_text(options.get(), NL_OPTION_DEVICE, 0, nullptr, 0, nullptr));
    EXPECT_INVALID("count", nl_options_get_count(options.get(), NL_OPTION_DEVICE, nullptr));
    EXPECT_INVALID("least", nl_option_bounds_int(NL_OPTION_TOP_K, nullptr, &value, &value));
    EXPECT_INVALID("most", nl_option_bounds_int(NL_OPTION_TOP_K, &value, nullptr, &value));
    EXPECT_INVALID("standard", nl_option_bounds_float(NL_OPTION_TOP_P, &real, &real, nullptr));
}

// Functions that take options of one kind refuse the others, and name both.
TEST(Options, GoWhereTheirKindBelongs) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = make_cache(engine.get());
    for (const int32_t kind : kKinds) {
        const OptionsHandle options = make_options(kind);
        if (kind != NL_OPTIONS_ENGINE) {
            nl_engine* made = nullptr;
            EXPECT_INVALID(": expected NL_OPTIONS_ENGINE",
                           nl_engine_create(model.path().data(), model.path().size(), options.get(), &made));
            EXPECT_EQ(made, nullptr);
        }
        if (kind != NL_OPTIONS_CACHE) {
            nl_cache* made = nullptr;
            EXPECT_INVALID(": expected NL_OPTIONS_CACHE",
                           nl_cache_create(engine.get(), options.get(), nullptr, 0, &made));
            EXPECT_EQ(made, nullptr);
        }
        if (kind != NL_OPTIONS_SAMPLING) {
            EXPECT_INVALID(": expected NL_OPTIONS_SAMPLING", nl_cache_set_sampling(cache.get(), options.get()));
        }
    }
}

// Options are copied: what is set afterwards changes nothing.
TEST(Options, AreCopiedByWhatTakesThem) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const CacheHandle one = make_cache(engine.get());
    const CacheHandle two = make_cache(engine.get());
    extend(one.get(), some_tokens(8));
    extend(two.get(), some_tokens(8));
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    NL_CHECK(nl_options_set_float(options.get(), NL_OPTION_TEMPERATURE, 3));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_SEED, -1));
    NL_CHECK(nl_cache_set_sampling(one.get(), options.get()));
    NL_CHECK(nl_cache_set_sampling(two.get(), options.get()));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_SEED, 5));
    EXPECT_EQ(decode(one.get(), 12), decode(two.get(), 12));
}

}  // namespace
}  // namespace nanolith::test
