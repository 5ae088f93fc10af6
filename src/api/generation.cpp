#include "engine/generation.h"

#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"

using namespace nanolith;
using namespace nanolith::api;

struct nl_generation {
    std::shared_ptr<Engine> engine;
    std::shared_ptr<Generation> generation;  // NULL while it is being started
    const HomeProcess home;

    explicit nl_generation(std::shared_ptr<Engine> of) : engine(std::move(of)) {}
    nl_generation(const nl_generation&) = delete;
    nl_generation& operator=(const nl_generation&) = delete;
    ~nl_generation() {
        if (generation == nullptr) return;
        generation->cancel();
        generation->forget_callback();
    }
};

namespace {

// Bytes of the longest UTF-8 character. With a smaller buffer the text could never advance past such a character.
constexpr size_t kLongestCharacter = 4;

// An optional output array: NULL with capacity 0 where it is not wanted. Only then may its count be NULL too.
template <typename T>
Result<std::span<T>> check_wanted(T* data, size_t capacity, const char* name, const char* capacity_name,
                                  const size_t* count, const char* count_name) {
    NL_ASSIGN(const auto span, check_array(data, capacity, name, capacity_name));
    if (data != nullptr) NL_TRY(check_pointer(count, count_name));
    return span;
}

Result<std::span<char>> check_text(char* text, size_t capacity, const size_t* length) {
    NL_ASSIGN(const auto span, check_wanted(text, capacity, "text", "text_capacity", length, "text_length"));
    if (text != nullptr && capacity < kLongestCharacter)
        return fail(NL_ERROR_INVALID_ARGUMENT, "text_capacity is ", capacity, ": expected at least ", kLongestCharacter,
                    ", which any character fits");
    return span;
}

Result<std::span<int32_t>> check_tokens(int32_t* tokens, size_t capacity, const size_t* num_tokens) {
    NL_ASSIGN(const auto span, check_wanted(tokens, capacity, "tokens", "token_capacity", num_tokens, "num_tokens"));
    if (tokens != nullptr && capacity == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "token_capacity is 0: expected at least 1, or tokens NULL");
    return span;
}

bool is_fact(int32_t fact) {
    const auto facts = facts_of(NL_FACTS_GENERATION);
    return fact >= facts.front().key && fact <= facts.back().key;
}

}  // namespace

extern "C" {

nl_status nl_generation_start(nl_cache* cache, const int32_t* tokens, size_t num_tokens, const nl_options* options,
                              nl_generation** generation) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(generation, "generation"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        NL_ASSIGN(const GenerationOptions chosen, generation_options(options));
        // Allocated first: if there is no memory for the handle, no generation must have been started.
        auto handle = std::make_unique<nl_generation>(cache->engine);
        NL_ASSIGN(handle->generation, cache->engine->generate(*cache->cache, span, chosen));
        *generation = handle.release();
        return {};
    });
}

nl_status nl_generation_next(nl_generation* generation, int64_t timeout_ms, int32_t* tokens, size_t token_capacity,
                             size_t* num_tokens, char* text, size_t text_capacity, size_t* text_length, int32_t* end) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        NL_TRY(check_pointer(end, "end"));
        NL_ASSIGN(const auto token_room, check_tokens(tokens, token_capacity, num_tokens));
        NL_ASSIGN(const auto text_room, check_text(text, text_capacity, text_length));
        auto piece = generation->generation->next(timeout_ms, token_room, text_room);
        if (num_tokens != nullptr) *num_tokens = piece.ok() ? piece->num_tokens : 0;
        if (text_length != nullptr) *text_length = piece.ok() ? piece->text_length : 0;
        *end = piece.ok() ? piece->end : NL_END_NONE;
        if (!piece.ok()) return std::move(piece.error());
        if (piece->error) return std::move(*piece->error);
        return {};
    });
}

nl_status nl_generation_logprobs(nl_generation* generation, float* logprobs, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto given, generation->generation->given_logprobs());
        NL_TRY(check_room(logprobs, capacity, given.num_tokens, count));
        for (size_t i = 0; i < given.num_tokens; ++i) logprobs[i] = given.of(i).front().logprob;
        return {};
    });
}

nl_status nl_generation_top_logprobs(nl_generation* generation, int32_t* tokens, float* logprobs, size_t capacity,
                                     size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto given, generation->generation->given_logprobs());
        NL_TRY(check_room(tokens, capacity, given.logprobs.size() - given.num_tokens, count));
        NL_TRY(check_room(logprobs, capacity, given.logprobs.size() - given.num_tokens, count));
        for (size_t i = 0; i < given.num_tokens; ++i) {
            for (const TokenLogprob& top : given.of(i).subspan(1)) {
                *tokens++ = top.token;
                *logprobs++ = top.logprob;
            }
        }
        return {};
    });
}

nl_status nl_generation_cancel(nl_generation* generation) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        generation->generation->cancel();
        return {};
    });
}

void nl_generation_free(nl_generation* generation) {
    free_handle(generation);
}

nl_status nl_generation_query(const nl_generation* generation, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        NL_TRY(check_pointer(value, "value"));
        if (!is_fact(fact)) return unknown_fact(NL_FACTS_GENERATION, fact, "GENERATION");
        *value = generation->generation->fact(fact);
        return {};
    });
}

nl_status nl_generation_descriptor(nl_generation* generation, int32_t* descriptor) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(generation, "generation"));
        NL_TRY(check_pointer(descriptor, "descriptor"));
        NL_ASSIGN(*descriptor, generation->generation->descriptor());
        return {};
    });
}

nl_status nl_cache_cancel(nl_cache* cache) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        cache->engine->cancel(*cache->cache);
        return {};
    });
}

nl_status nl_engine_cancel(nl_engine* engine) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        engine->engine->cancel_all(engine->tenant);
        return {};
    });
}

}  // extern "C"
