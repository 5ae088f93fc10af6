#include <vector>

#include "api/chunk_list.h"
#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/path.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<int64_t> chunk_fact(const nl_chunk& handle, int32_t fact) {
    const auto facts = handle.engine->facts(handle.chunk);
    switch (fact) {
        case NL_CHUNK_TOKENS:
            return handle.chunk->num_tokens();
        case NL_CHUNK_LEVEL:
            return facts.level;
        case NL_CHUNK_PAGES:
            return facts.pages;
        case NL_CHUNK_BYTES:
            return facts.pages * handle.engine->page_bytes();
        case NL_CHUNK_TOKENS_COMPUTED:
            return handle.computed;
        case NL_CHUNK_USERS:
            return facts.users;
        case NL_CHUNK_ORIGIN:
            return handle.origin;
        case NL_CHUNK_PRIORITY:
            return facts.priority;
        default:
            return unknown_fact(NL_FACTS_CHUNK, fact, "CHUNK");
    }
}

}  // namespace

extern "C" {

nl_status nl_chunk_prefill(nl_engine* engine, const int32_t* tokens, size_t num_tokens, int32_t level,
                           const nl_chunk* const* before, size_t num_before, nl_chunk** chunk) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(chunk, "chunk"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        NL_ASSIGN(ChunkList list, ChunkList::of(*engine, before, num_before, "before", "num_before"));
        NL_ASSIGN(auto prefilled, engine->engine->prefill(engine->tenant, span, level, list.chunks()));
        *chunk = new nl_chunk(engine->engine, std::move(prefilled.chunk), prefilled.computed, prefilled.origin);
        return {};
    });
}

nl_status nl_chunk_retain(const nl_chunk* chunk, nl_chunk** again) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(chunk, "chunk"));
        NL_TRY(check_pointer(again, "again"));
        *again = new nl_chunk(chunk->engine, chunk->engine->retain(chunk->chunk), chunk->computed, chunk->origin);
        return {};
    });
}

void nl_chunk_free(nl_chunk* chunk) {
    free_handle(chunk);
}

nl_status nl_chunk_save(const nl_chunk* chunk, const char* path, size_t path_length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(chunk, "chunk"));
        NL_ASSIGN(const std::string file, check_path(path, path_length));
        return chunk->engine->save(chunk->chunk, file);
    });
}

nl_status nl_chunk_load(nl_engine* engine, const char* path, size_t path_length, nl_chunk** chunk) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(chunk, "chunk"));
        NL_ASSIGN(const std::string file, check_path(path, path_length));
        NL_ASSIGN(auto loaded, engine->engine->load_chunk(engine->tenant, file));
        *chunk = new nl_chunk(engine->engine, std::move(loaded.chunk), 0, loaded.origin);
        return {};
    });
}

nl_status nl_chunk_set_priority(const nl_chunk* chunk, int32_t priority) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(chunk, "chunk"));
        if (priority < NL_PRIORITY_LOWEST || priority > NL_PRIORITY_PINNED)
            return fail(NL_ERROR_INVALID_ARGUMENT, "priority is ", priority, ": expected ", NL_PRIORITY_LOWEST, " to ",
                        NL_PRIORITY_PINNED);
        chunk->engine->set_priority(chunk->chunk, priority);
        return {};
    });
}

nl_status nl_chunk_query(const nl_chunk* chunk, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(chunk, "chunk"));
        NL_TRY(check_pointer(value, "value"));
        NL_ASSIGN(*value, chunk_fact(*chunk, fact));
        return {};
    });
}

}  // extern "C"
