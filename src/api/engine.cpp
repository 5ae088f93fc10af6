#include <optional>

#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/metrics_text.h"
#include "api/options.h"
#include "api/path.h"
#include "text/json_writer.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

// One of the facts of the moment on chunks, of a report with levels where it is NL_ENGINE_CHUNK_BYTES; none where it is
// another fact.
std::optional<int64_t> store_fact(const Engine::StoreReport& report, int64_t page_bytes, int32_t fact) {
    const StoreNumbers& counted = report.counted;
    switch (fact) {
        case NL_ENGINE_CHUNKS:
            return report.chunks;
        case NL_ENGINE_HOST_CHUNKS:
            return report.host_chunks;
        case NL_ENGINE_HOST_BYTES:
            return report.host_bytes;
        case NL_ENGINE_FILE_CHUNKS:
            return report.file_chunks;
        case NL_ENGINE_FILE_BYTES:
            return report.file_bytes;
        case NL_ENGINE_HITS:
            return counted.hits;
        case NL_ENGINE_HOST_HITS:
            return counted.host_hits;
        case NL_ENGINE_FILE_HITS:
            return counted.file_hits;
        case NL_ENGINE_MISSES:
            return counted.misses;
        case NL_ENGINE_TOKENS_REUSED:
            return counted.tokens_reused;
        case NL_ENGINE_TOKENS_COMPUTED:
            return counted.tokens_computed;
        case NL_ENGINE_EVICTIONS:
            return counted.evictions;
        case NL_ENGINE_SERVER_HITS:
            return counted.server_hits;
        case NL_ENGINE_CHUNK_BYTES:
            return total(report.device_levels).pages * page_bytes;
        case NL_ENGINE_HOST_MOVES:
            return counted.host_moves;
        case NL_ENGINE_FILE_MOVES:
            return counted.file_moves;
        case NL_ENGINE_SERVER_MOVES:
            return counted.server_moves;
        case NL_ENGINE_DEVICE_MOVES:
            return counted.device_moves;
        case NL_ENGINE_SAVED_MS:
            return report.saved_ms;
        default:
            return std::nullopt;
    }
}

// One of the others.
std::optional<int64_t> engine_fact(Engine& engine, int32_t fact) {
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
            return std::nullopt;
    }
}

std::string levels_as_json(const LevelCounts& levels, int64_t page_bytes) {
    std::string list;
    for (size_t level = 0; level < levels.size(); ++level) {
        JsonObject object;
        object.add("level", static_cast<int64_t>(level)).add("chunks", levels[level].chunks);
        object.add("bytes", levels[level].pages * page_bytes);
        list += (list.empty() ? "[" : ",") + object.text();
    }
    return list + "]";
}

std::string tiers_as_json(const Engine::StoreReport& report, int64_t page_bytes) {
    const StoreNumbers& counted = report.counted;
    JsonObject device;
    device.add("tier", "device")
        .add("chunks", report.chunks)
        .add("bytes", total(report.device_levels).pages * page_bytes);
    device.add("hits", counted.hits).add("moves", counted.device_moves);
    std::string list = "[" + device.add_json("levels", levels_as_json(report.device_levels, page_bytes)).text();
    if (report.has_host) {
        JsonObject host;
        host.add("tier", "host").add("chunks", report.host_chunks).add("bytes", report.host_bytes);
        host.add("hits", counted.host_hits).add("moves", counted.host_moves);
        list += "," + host.add_json("levels", levels_as_json(report.host_levels, page_bytes)).text();
    }
    if (report.has_files) {
        JsonObject files;
        files.add("tier", "files").add("chunks", report.file_chunks).add("bytes", report.file_bytes);
        list += "," + files.add("hits", counted.file_hits).add("moves", counted.file_moves).text();
    }
    if (report.has_server) {
        JsonObject server;
        server.add("tier", "server").add("hits", counted.server_hits).add("moves", counted.server_moves);
        list += "," + server.text();
    }
    return list + "]";
}

std::string as_json(const nl_engine& handle) {
    Engine& engine = *handle.engine;
    const Engine::StoreReport report = engine.store_report(handle.tenant.get(), true);
    JsonObject object;
    for (const Fact& fact : facts_of(NL_FACTS_ENGINE)) {
        auto value = engine_fact(engine, fact.key);
        if (!value) value = store_fact(report, engine.page_bytes(), fact.key);
        if (value) object.add(key_in_json(fact), *value);
    }
    return object.add_json("tiers", tiers_as_json(report, engine.page_bytes())).text();
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
        Engine& asked = *engine->engine;
        auto found = engine_fact(asked, fact);
        if (!found) {
            const auto report = asked.store_report(engine->tenant.get(), fact == NL_ENGINE_CHUNK_BYTES);
            found = store_fact(report, asked.page_bytes(), fact);
        }
        if (!found) return unknown_fact(NL_FACTS_ENGINE, fact, "ENGINE");
        *value = *found;
        return {};
    });
}

nl_status nl_engine_describe(const nl_engine* engine, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(length, "length"));
        return give_text(as_json(*engine), buffer, capacity, length);
    });
}

nl_status nl_engine_metrics(const nl_engine* engine, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(length, "length"));
        if (engine->tenant != nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, "engine is the handle of a tenant: expected the engine's own");
        return give_text(metrics_text(*engine->engine), buffer, capacity, length);
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
