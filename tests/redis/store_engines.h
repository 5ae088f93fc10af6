// Engines that share a server.
#pragma once

#include <mutex>
#include <string>

#include "abi/abi_fixtures.h"
#include "redis_server.h"

namespace nanolith::testing {

using namespace nanolith::test;

struct ServerLog {
    std::mutex mutex;
    int warnings = 0;
    std::string text;

    static void write(void* self, int32_t severity, const char* message, size_t length) {
        auto& log = *static_cast<ServerLog*>(self);
        const std::lock_guard lock(log.mutex);
        if (severity < NL_LOG_WARNING) return;
        ++log.warnings;
        log.text += std::string(message, length) + "\n";
    }
};

inline EngineHandle make_engine_with(const std::string& model, const std::string& address, ServerLog* log = nullptr,
                                     int64_t deadline_ms = 20000) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), "cpu"), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, 64), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, 16), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_STORE_DEADLINE_MS, deadline_ms), NL_OK);
    EXPECT_EQ(nl_options_set_text(options.get(), NL_OPTION_STORE_SERVER, address.data(), address.size()), NL_OK);
    if (log != nullptr) {
        EXPECT_EQ(nl_options_set_log(options.get(), ServerLog::write, log), NL_OK);
    }
    nl_engine* engine = nullptr;
    EXPECT_EQ(nl_engine_create(model.data(), model.size(), options.get(), &engine), NL_OK) << nl_last_error();
    return EngineHandle(engine);
}

inline Tokens answer_behind(nl_engine* engine, const nl_chunk* chunk) {
    const CacheHandle cache = make_cache(engine, {chunk});
    extend(cache.get(), some_tokens(3, 8));
    return decode(cache.get(), 8);
}

class StoreServer : public ::testing::Test {
  protected:
    // What a chunk of 40 tokens answers where an engine of its own computes it, which leaves it on the server.
    Tokens computed_first() {
        const EngineHandle engine = make_engine_with(model.path(), address);
        const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_COMPUTED);
        return answer_behind(engine.get(), chunk.get());
    }
    // The same by a later engine, and where that has the chunk from.
    Tokens later(int64_t origin, ServerLog* log = nullptr, int64_t deadline_ms = 20000) {
        const EngineHandle engine = make_engine_with(model.path(), address, log, deadline_ms);
        const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_ORIGIN), origin);
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED), origin == NL_ORIGIN_COMPUTED ? 40 : 0);
        EXPECT_EQ(fact(engine.get(), NL_ENGINE_SERVER_HITS), origin == NL_ORIGIN_SERVER ? 1 : 0);
        return answer_behind(engine.get(), chunk.get());
    }
    // What creating an engine with the address gives.
    nl_status status_of_engine(const std::string& wrong) const {
        const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
        EXPECT_EQ(set_device(options.get(), "cpu"), NL_OK);
        EXPECT_EQ(nl_options_set_text(options.get(), NL_OPTION_STORE_SERVER, wrong.data(), wrong.size()), NL_OK);
        nl_engine* engine = nullptr;
        return nl_engine_create(model.path().data(), model.path().size(), options.get(), &engine);
    }

    const TinyModel model;
    RedisServer server;
    std::string address = server.address();  // what engines are told
};

}  // namespace nanolith::testing
