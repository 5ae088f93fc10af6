#include "api/chunk_list.h"
#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/path.h"
#include "base/hex.h"
#include "text/json_writer.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<int64_t> cache_fact(const nl_cache& handle, const Engine::CacheFacts& facts, int32_t fact) {
    switch (fact) {
        case NL_CACHE_TOKENS:
            return facts.tokens;
        case NL_CACHE_PAGES:
            return facts.pages;
        case NL_CACHE_PRIVATE_PAGES:
            return facts.private_pages;
        case NL_CACHE_BYTES:
            return facts.pages * handle.engine->page_bytes();
        case NL_CACHE_TOKENS_REUSED:
            return facts.reused;
        case NL_CACHE_TOKENS_COMPUTED:
            return facts.computed;
        case NL_CACHE_TOKENS_BLENDED:
            return facts.blended;
        case NL_CACHE_COMPOSITION:
            return facts.composition;
        case NL_CACHE_CHUNK_TOKENS_REUSED:
            return facts.chunk_reused;
        case NL_CACHE_SAVED_MS:
            return facts.saved_ms;
        default:
            return unknown_fact(NL_FACTS_CACHE, fact, "CACHE");
    }
}

// How many numbers nl_cache_embed gives.
Result<size_t> size_of_vectors(int32_t pooling, size_t num_tokens, size_t hidden) {
    size_t size = hidden;
    if (pooling == NL_POOLING_NONE && __builtin_mul_overflow(num_tokens, hidden, &size))
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is ", num_tokens, ": ", hidden,
                    " numbers of each are more than an address space holds");
    return size;
}

}  // namespace

extern "C" {

nl_status nl_cache_create(nl_engine* engine, const nl_options* options, const nl_chunk* const* chunks,
                          size_t num_chunks, nl_cache** cache) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(cache, "cache"));
        NL_ASSIGN(ChunkList list, ChunkList::of(*engine, chunks, num_chunks, "chunks", "num_chunks"));
        NL_ASSIGN(const CacheOptions read, cache_options(options));
        NL_ASSIGN(auto created, engine->engine->create_cache(engine->tenant, read, list.chunks()));
        *cache = new nl_cache(engine->engine, std::move(created));
        return {};
    });
}

void nl_cache_free(nl_cache* cache) {
    free_handle(cache);
}

nl_status nl_cache_extend(nl_cache* cache, const int32_t* tokens, size_t num_tokens) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        return cache->engine->extend(*cache->cache, span);
    });
}

nl_status nl_cache_score(nl_cache* cache, const int32_t* tokens, size_t num_tokens, float* logprobs, size_t capacity,
                         size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        NL_TRY(check_room(logprobs, capacity, num_tokens, count));
        return cache->engine->score(*cache->cache, span, {logprobs, num_tokens});
    });
}

nl_status nl_cache_score_next(nl_cache* cache, const int32_t* tokens, size_t num_tokens, const int32_t* candidates,
                              size_t num_candidates, float* logprobs, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto text, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        NL_ASSIGN(const auto next, check_array(candidates, num_candidates, "candidates", "num_candidates"));
        NL_TRY(check_room(logprobs, capacity, num_candidates, count));
        return cache->engine->score_next(*cache->cache, text, next, {logprobs, num_candidates});
    });
}

nl_status nl_cache_embed(nl_cache* cache, const int32_t* tokens, size_t num_tokens, int32_t pooling, uint32_t flags,
                         float* vectors, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        if (pooling < NL_POOLING_LAST || pooling > NL_POOLING_NONE)
            return fail(NL_ERROR_INVALID_ARGUMENT, "pooling is ", pooling, ": expected one of NL_POOLING_*");
        if ((flags & ~uint32_t{NL_EMBED_NORMALIZED}) != 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", hex(flags), ": expected NL_EMBED_NORMALIZED or 0");
        const auto hidden = static_cast<size_t>(cache->engine->spec().hidden_size);
        NL_ASSIGN(const size_t size, size_of_vectors(pooling, num_tokens, hidden));
        NL_TRY(check_room(vectors, capacity, size, count));
        return cache->engine->embed(*cache->cache, span, pooling, (flags & NL_EMBED_NORMALIZED) != 0, {vectors, size});
    });
}

nl_status nl_cache_fork(nl_cache* cache, nl_cache** fork) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(fork, "fork"));
        NL_ASSIGN(auto forked, cache->engine->fork(*cache->cache));
        *fork = new nl_cache(cache->engine, std::move(forked));
        return {};
    });
}

nl_status nl_cache_truncate(nl_cache* cache, size_t num_tokens) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        return cache->engine->truncate(*cache->cache, num_tokens);
    });
}

nl_status nl_cache_tokens(const nl_cache* cache, int32_t* tokens, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        const std::vector<int32_t> all = cache->engine->tokens(*cache->cache);
        return give<int32_t>(all, tokens, capacity, count);
    });
}

nl_status nl_cache_logits(nl_cache* cache, float* logits, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        const auto vocab = static_cast<size_t>(cache->engine->spec().vocab_size);
        NL_TRY(check_room(logits, capacity, vocab, count));
        return cache->engine->logits(*cache->cache, {logits, vocab});
    });
}

nl_status nl_cache_save(nl_cache* cache, const char* path, size_t path_length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_ASSIGN(const std::string file, check_path(path, path_length));
        return cache->engine->save(*cache->cache, file);
    });
}

nl_status nl_cache_load(nl_engine* engine, const char* path, size_t path_length, nl_cache** cache) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(cache, "cache"));
        NL_ASSIGN(const std::string file, check_path(path, path_length));
        NL_ASSIGN(auto loaded, engine->engine->load_cache(engine->tenant, file));
        *cache = new nl_cache(engine->engine, std::move(loaded));
        return {};
    });
}

nl_status nl_cache_query(const nl_cache* cache, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(value, "value"));
        NL_ASSIGN(*value, cache_fact(*cache, cache->engine->facts(*cache->cache), fact));
        return {};
    });
}

nl_status nl_cache_describe(const nl_cache* cache, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(length, "length"));
        const auto facts = cache->engine->facts(*cache->cache);
        JsonObject object;
        for (const Fact& fact : facts_of(NL_FACTS_CACHE)) {
            NL_ASSIGN(const int64_t value, cache_fact(*cache, facts, fact.key));
            object.add(key_in_json(fact), value);
        }
        return give_text(object.text(), buffer, capacity, length);
    });
}

nl_status nl_cache_set_sampling(nl_cache* cache, const nl_options* options) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(options, "options"));
        NL_ASSIGN(const SamplingOptions sampling, sampling_options(*options));
        return cache->engine->set_sampling(*cache->cache, sampling);
    });
}

}  // extern "C"
