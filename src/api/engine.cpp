#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/path.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<int64_t> store_fact(const nl_engine& handle, int32_t fact) {
    const StoreNumbers numbers = handle.engine->store_numbers(handle.tenant.get());
    switch (fact) {
        case NL_ENGINE_CHUNKS:
            return numbers.chunks;
        case NL_ENGINE_HOST_CHUNKS:
            return numbers.host_chunks;
        case NL_ENGINE_HOST_BYTES:
            return numbers.host_bytes;
        case NL_ENGINE_FILE_CHUNKS:
            return numbers.file_chunks;
        case NL_ENGINE_FILE_BYTES:
            return numbers.file_bytes;
        case NL_ENGINE_HITS:
            return numbers.hits;
        case NL_ENGINE_HOST_HITS:
            return numbers.host_hits;
        case NL_ENGINE_FILE_HITS:
            return numbers.file_hits;
        case NL_ENGINE_MISSES:
            return numbers.misses;
        case NL_ENGINE_TOKENS_REUSED:
            return numbers.tokens_reused;
        case NL_ENGINE_TOKENS_COMPUTED:
            return numbers.tokens_computed;
        case NL_ENGINE_EVICTIONS:
            return numbers.evictions;
        case NL_ENGINE_SERVER_HITS:
            return numbers.server_hits;
        default:
            return unknown_fact(NL_FACTS_ENGINE, fact, "ENGINE");
    }
}

Result<int64_t> engine_fact(const nl_engine& handle, int32_t fact) {
    Engine& engine = *handle.engine;
    const ModelSpec& spec = engine.spec();
    switch (fact) {
        case NL_ENGINE_VOCAB_SIZE:
            return spec.vocab_size;
        case NL_ENGINE_NUM_LAYERS:
            return spec.num_layers;
        case NL_ENGINE_HIDDEN_SIZE:
            return spec.hidden_size;
        case NL_ENGINE_NUM_HEADS:
            return spec.num_heads;
        case NL_ENGINE_NUM_KV_HEADS:
            return spec.num_kv_heads;
        case NL_ENGINE_HEAD_DIM:
            return spec.head_dim;
        case NL_ENGINE_MAX_CONTEXT:
            return spec.max_context;
        case NL_ENGINE_DTYPE:
            return dtype_number(engine.dtype());
        case NL_ENGINE_PAGE_SIZE:
            return engine.page_size();
        case NL_ENGINE_PAGE_BYTES:
            return engine.page_bytes();
        case NL_ENGINE_PAGES_TOTAL:
            return engine.page_counts().total;
        case NL_ENGINE_PAGES_FREE:
            return engine.page_counts().free;
        case NL_ENGINE_PAGES_EVICTABLE:
            return engine.page_counts().evictable;
        case NL_ENGINE_PARAMETERS:
            return engine.model().num_parameters;
        default:
            return store_fact(handle, fact);
    }
}

}  // namespace

extern "C" {

nl_status nl_engine_create(const char* path, size_t path_length, const nl_options* options, nl_engine** engine) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(engine, "engine"));
        NL_ASSIGN(const std::string folder, check_path(path, path_length));
        NL_ASSIGN(const EngineOptions chosen, engine_options(options));
        NL_ASSIGN(auto created, Engine::create(folder, chosen));
        *engine = new nl_engine{std::move(created)};
        return {};
    });
}

nl_status nl_engine_tenant(const nl_engine* engine, const char* salt, size_t salt_length, nl_engine** tenant) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(tenant, "tenant"));
        NL_ASSIGN(const auto text, check_array(salt, salt_length, "salt", "salt_length"));
        NL_ASSIGN(auto found, engine->engine->tenant({text.data(), text.size()}));
        *tenant = new nl_engine{engine->engine, std::move(found)};
        return {};
    });
}

void nl_engine_free(nl_engine* engine) {
    free_handle(engine);
}

nl_status nl_engine_query(const nl_engine* engine, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(value, "value"));
        NL_ASSIGN(*value, engine_fact(*engine, fact));
        return {};
    });
}

nl_status nl_engine_device(const nl_engine* engine, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(length, "length"));
        return give_text(engine->engine->device_name(), buffer, capacity, length);
    });
}

nl_status nl_engine_is_end_token(const nl_engine* engine, int32_t token, int32_t* is_end) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(is_end, "is_end"));
        *is_end = engine->engine->is_end_token(token) ? 1 : 0;
        return {};
    });
}

}  // extern "C"
