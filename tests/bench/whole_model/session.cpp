#include "bench/whole_model/session.h"

#include <cstdio>
#include <cstdlib>

namespace nanolith::bench {

void must(nl_status status, const char* doing) {
    if (status == NL_OK) return;
    std::fprintf(stderr, "%s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    std::exit(EXIT_FAILURE);
}

Options make_options(int32_t kind) {
    nl_options* options = nullptr;
    must(nl_options_create(kind, &options), "options");
    return Options(options);
}

Session::Session(const Setup& setup) {
    const Options options = make_options(NL_OPTIONS_ENGINE);
    must(nl_options_set_text(options.get(), NL_OPTION_DEVICE, setup.device.data(), setup.device.size()), "device");
    if (setup.batch_tokens > 0) {
        must(nl_options_set_int(options.get(), NL_OPTION_MAX_BATCH_TOKENS, setup.batch_tokens), "batch tokens");
    }
    // What is measured is computed, and not taken over from an earlier turn.
    must(nl_options_set_int(options.get(), NL_OPTION_SHARE_PREFIXES, 0), "sharing of beginnings");
    nl_engine* engine = nullptr;
    must(nl_engine_create(setup.folder.data(), setup.folder.size(), options.get(), &engine), "engine");
    engine_.reset(engine);
}

int64_t Session::fact(int32_t fact) const {
    int64_t value = 0;
    must(nl_engine_query(engine_.get(), fact, &value), "query");
    return value;
}

std::string Session::device() const {
    char name[256];
    size_t length = 0;
    must(nl_engine_device(engine_.get(), name, sizeof name, &length), "device");
    return {name, length};
}

Chunk Session::prefill(const Tokens& tokens) const {
    nl_chunk* chunk = nullptr;
    must(nl_chunk_prefill(engine_.get(), tokens.data(), tokens.size(), NL_LEVEL_QUERY, nullptr, 0, &chunk), "prefill");
    return Chunk(chunk);
}

Cache Session::conversation(const nl_chunk* chunk) const {
    nl_cache* cache = nullptr;
    must(nl_cache_create(engine_.get(), nullptr, &chunk, chunk != nullptr ? 1 : 0, &cache), "cache");
    return Cache(cache);
}

Cache Session::composed(const std::vector<const nl_chunk*>& chunks, int32_t composition, double share) const {
    const Options options = make_options(NL_OPTIONS_CACHE);
    must(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, composition), "composition");
    must(nl_options_set_float(options.get(), NL_OPTION_BLEND_SHARE, share), "share");
    nl_cache* cache = nullptr;
    must(nl_cache_create(engine_.get(), options.get(), chunks.data(), chunks.size(), &cache), "cache");
    return Cache(cache);
}

Generation Session::start(nl_cache* cache, const Tokens& prompt, int32_t count) const {
    const Options options = make_options(NL_OPTIONS_GENERATION);
    must(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, count), "max tokens");
    must(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, count + 1), "buffer tokens");
    must(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0), "end tokens");
    must(nl_options_set_int(options.get(), NL_OPTION_TEXT, 0), "text");
    nl_generation* generation = nullptr;
    must(nl_generation_start(cache, prompt.data(), prompt.size(), options.get(), &generation), "generation");
    return Generation(generation);
}

namespace {

// The next `capacity` tokens or fewer; whether there may be more.
bool next_tokens(nl_generation* generation, int32_t* tokens, size_t capacity, size_t* count) {
    int32_t end = NL_END_NONE;
    must(nl_generation_next(generation, -1, tokens, capacity, count, nullptr, 0, nullptr, &end), "next");
    return end == NL_END_NONE;
}

}  // namespace

void finish(nl_generation* generation) {
    while (next_tokens(generation, nullptr, 0, nullptr)) {
    }
}

bool next_token(nl_generation* generation) {
    int32_t token = 0;
    size_t count = 0;
    while (next_tokens(generation, &token, 1, &count)) {
        if (count > 0) return true;
    }
    return count > 0;
}

}  // namespace nanolith::bench
