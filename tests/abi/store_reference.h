// What random programs upon the store (store_programs.h) compare with: an engine that was made for the comparison
// alone, has no tiers and shares nothing, and so computes everything.
#pragma once

#include <atomic>
#include <memory>

#include "abi/store_fixtures.h"

namespace nanolith::test::store_programs {

// For what makes requests of the system fail: the test's own are spared. Whether the calling thread runs the test's
// code, and how many engines exist for a comparison alone.
inline thread_local bool is_test = false;
inline std::atomic<int> references = 0;

// Code of the test in one of the library's threads.
class Spared {
  public:
    Spared() { is_test = true; }
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;
    ~Spared() { is_test = before_; }

  private:
    const bool before_ = is_test;
};

// A call of the library by the test.
template <typename Call>
nl_status call(const Call& work) {
    is_test = false;
    const nl_status status = work();
    is_test = true;
    return status;
}

// A chunk as it was asked for.
struct Spec {
    Tokens tokens;
    int32_t level = 1;
    std::vector<std::shared_ptr<const Spec>> before = {};
};
using SpecPointer = std::shared_ptr<const Spec>;

// A call that changed a conversation.
struct Turn {
    enum class Kind { extend, truncate, decode } kind;
    Tokens tokens = {};  // that it added
    size_t length = 0;   // that it left, of `truncate`
};

// What a conversation is by its definition.
struct Context {
    int32_t composition = NL_COMPOSE_INDEPENDENT;
    std::vector<SpecPointer> chunks;
    Tokens tokens;            // all, those of the chunks first
    size_t of_chunks = 0;     // how many of these still are its chunks'
    std::vector<Turn> turns;  // all calls so far
};

// Warnings::write, which is the test's code in a thread of the library.
inline void write_warning(void* warnings, int32_t severity, const char* message, size_t length) {
    const Spared spared;
    Warnings::write(warnings, severity, message, length);
}

struct EngineShape {
    int64_t num_pages = 120;
    int64_t host_bytes = 0;
    int64_t store_bytes = 0;
    int64_t max_batch_tokens = 64;
    bool shares = false;
    std::string folder = {};
    Warnings* warnings = nullptr;
};

inline nl_status create(const std::string& model, const EngineShape& shape, EngineHandle& engine) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    const std::pair<int32_t, int64_t> values[] = {
        {NL_OPTION_BATCH_INVARIANT, 1},
        {NL_OPTION_DTYPE, NL_DTYPE_F32},
        {NL_OPTION_THREADS, 1},
        {NL_OPTION_WARM_UP, 0},
        {NL_OPTION_PAGE_SIZE, 16},
        {NL_OPTION_NUM_PAGES, shape.num_pages},
        {NL_OPTION_MAX_BATCH_TOKENS, shape.max_batch_tokens},
        {NL_OPTION_SHARE_PREFIXES, shape.shares ? 1 : 0},
        {NL_OPTION_HOST_BYTES, shape.host_bytes},
        {NL_OPTION_STORE_BYTES, shape.store_bytes},
    };
    for (const auto& [option, value] : values)
        EXPECT_EQ(nl_options_set_int(options.get(), option, value), NL_OK) << nl_last_error();
    EXPECT_EQ(nl_options_set_text(options.get(), NL_OPTION_STORE_FOLDER, shape.folder.data(), shape.folder.size()),
              NL_OK);
    if (shape.warnings != nullptr) {
        EXPECT_EQ(nl_options_set_log(options.get(), write_warning, shape.warnings), NL_OK);
    }
    nl_engine* made = nullptr;
    const nl_status status = call([&] { return nl_engine_create(model.data(), model.size(), options.get(), &made); });
    engine.reset(made);
    return status;
}

// An engine that computes a context anew.
class Reference {
  public:
    // `max_batch_tokens`: as the engine has it that is compared, since a blend's choice depends on it.
    Reference(const std::string& model, int64_t max_batch_tokens) {
        EngineShape shape;
        shape.max_batch_tokens = max_batch_tokens;
        EXPECT_EQ(create(model, shape, engine_), NL_OK) << nl_last_error();
    }

    // The tokens that follow the context.
    Tokens draw(const Context& context, int count) {
        std::vector<ChunkHandle> handles;
        std::vector<const nl_chunk*> chunks;
        for (const SpecPointer& spec : context.chunks) {
            handles.push_back(prefill(*spec));
            chunks.push_back(handles.back().get());
        }
        const CacheHandle cache = make(context.composition, chunks);
        if (context.composition == NL_COMPOSE_BLENDED) {
            replay(cache.get(), context.turns);
        } else {
            truncate(cache.get(), context.of_chunks);
            extend(cache.get(),
                   {context.tokens.begin() + static_cast<std::ptrdiff_t>(context.of_chunks), context.tokens.end()});
        }
        EXPECT_EQ(tokens_of(cache.get()), context.tokens);
        return decode(cache.get(), count);
    }

    static CacheHandle make_of(nl_engine* engine, int32_t composition, const std::vector<const nl_chunk*>& chunks,
                               nl_status& status) {
        const OptionsHandle options = make_options(NL_OPTIONS_CACHE);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, composition), NL_OK);
        EXPECT_EQ(nl_options_set_float(options.get(), NL_OPTION_BLEND_SHARE, 0.45), NL_OK);
        nl_cache* cache = nullptr;
        status = call([&] { return nl_cache_create(engine, options.get(), chunks.data(), chunks.size(), &cache); });
        return CacheHandle(cache);
    }

  private:
    ChunkHandle prefill(const Spec& spec) {
        std::vector<ChunkHandle> handles;
        std::vector<const nl_chunk*> before;
        for (const SpecPointer& each : spec.before) {
            handles.push_back(prefill(*each));
            before.push_back(handles.back().get());
        }
        return make_chunk(engine_.get(), spec.tokens, spec.level, before);
    }

    CacheHandle make(int32_t composition, const std::vector<const nl_chunk*>& chunks) {
        nl_status status = NL_OK;
        CacheHandle cache = make_of(engine_.get(), composition, chunks, status);
        EXPECT_EQ(status, NL_OK) << nl_last_error();
        return cache;
    }

    static void truncate(nl_cache* cache, size_t length) {
        EXPECT_EQ(nl_cache_truncate(cache, length), NL_OK) << nl_last_error();
    }

    static void replay(nl_cache* cache, const std::vector<Turn>& turns) {
        for (const Turn& turn : turns) {
            if (turn.kind == Turn::Kind::extend) extend(cache, turn.tokens);
            if (turn.kind == Turn::Kind::truncate) truncate(cache, turn.length);
            if (turn.kind == Turn::Kind::decode) {
                EXPECT_EQ(decode(cache, static_cast<int>(turn.tokens.size())), turn.tokens);
            }
        }
    }

    struct Counted {
        Counted() { ++references; }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;
        ~Counted() { --references; }
    };
    const Counted counted_;
    EngineHandle engine_;
};

}  // namespace nanolith::test::store_programs
