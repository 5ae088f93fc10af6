// What the opaque handles of nanolith.h are. Those that need an engine keep it alive; chunks and caches are released
// through it, under its mutex.
#pragma once

#include <memory>

#include "api/home_process.h"
#include "engine/engine.h"
#include "text/chat_format.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

struct nl_engine {
    std::shared_ptr<nanolith::Engine> engine;
    std::shared_ptr<nanolith::Tenant> tenant = {};  // for whom it is; null: the engine itself
    nanolith::api::HomeProcess home = {};
};

struct nl_tokenizer {
    std::shared_ptr<const nanolith::Tokenizer> tokenizer;
};

struct nl_text_stream {
    nanolith::TextStream stream;
};

struct nl_chat_format {
    nanolith::ChatFormat format;
};

struct nl_chunk {
    std::shared_ptr<nanolith::Engine> engine;
    std::shared_ptr<nanolith::Chunk> chunk;
    int64_t computed;
    int32_t origin;  // NL_ORIGIN_*
    const nanolith::api::HomeProcess home;

    nl_chunk(std::shared_ptr<nanolith::Engine> of, std::shared_ptr<nanolith::Chunk> what, int64_t tokens, int32_t from)
        : engine(std::move(of)), chunk(std::move(what)), computed(tokens), origin(from) {}
    nl_chunk(const nl_chunk&) = delete;
    nl_chunk& operator=(const nl_chunk&) = delete;
    ~nl_chunk() { engine->release(std::move(chunk)); }
};

struct nl_cache {
    // First member, by which netlink.cpp tells a cache of ours from one of libnl-3: no address is this number.
    static constexpr uint64_t kTag = 0x9e6c616e6f6c6974;
    const uint64_t tag = kTag;
    std::shared_ptr<nanolith::Engine> engine;
    std::unique_ptr<nanolith::Cache> cache;
    const nanolith::api::HomeProcess home;

    nl_cache(std::shared_ptr<nanolith::Engine> of, std::unique_ptr<nanolith::Cache> what)
        : engine(std::move(of)), cache(std::move(what)) {}
    nl_cache(const nl_cache&) = delete;
    nl_cache& operator=(const nl_cache&) = delete;
    ~nl_cache() { engine->release(std::move(cache)); }
};
