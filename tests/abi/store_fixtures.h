// What the tests of the store share: engines with tiers below the device's pages.
#pragma once

#include <mutex>
#include <string>

#include "abi/abi_fixtures.h"

namespace nanolith::test {

// An engine's log lines of warnings.
struct Warnings {
    std::mutex mutex;
    std::string text;

    static void write(void* self, int32_t severity, const char* message, size_t length) {
        auto& warnings = *static_cast<Warnings*>(self);
        const std::lock_guard lock(warnings.mutex);
        if (severity >= NL_LOG_WARNING) warnings.text += std::string(message, length) + "\n";
    }
    bool has(const std::string& what) {
        const std::lock_guard lock(mutex);
        return text.find(what) != std::string::npos;
    }
};

struct StoreSettings {
    std::string folder = {};
    int64_t num_pages = 64;
    int64_t store_bytes = 0;
    int64_t host_bytes = 0;
    Warnings* warnings = nullptr;
};

inline EngineHandle make_store_engine(const std::string& model, const StoreSettings& settings) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, settings.num_pages), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, 16), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_STORE_BYTES, settings.store_bytes), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_HOST_BYTES, settings.host_bytes), NL_OK);
    EXPECT_EQ(
        nl_options_set_text(options.get(), NL_OPTION_STORE_FOLDER, settings.folder.data(), settings.folder.size()),
        NL_OK);
    if (settings.warnings != nullptr) {
        EXPECT_EQ(nl_options_set_log(options.get(), Warnings::write, settings.warnings), NL_OK);
    }
    nl_engine* engine = nullptr;
    EXPECT_EQ(nl_engine_create(model.data(), model.size(), options.get(), &engine), NL_OK) << nl_last_error();
    return EngineHandle(engine);
}

// What a conversation behind the chunk draws.
inline Tokens answer(nl_engine* engine, const nl_chunk* chunk) {
    const CacheHandle cache = make_cache(engine, {chunk});
    extend(cache.get(), some_tokens(3, 8));
    return decode(cache.get(), 8);
}

}  // namespace nanolith::test
