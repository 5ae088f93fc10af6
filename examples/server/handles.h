// The library's handles, freed by themselves, and what is asked of the library in one line.
#pragma once

#include <nanolith/nanolith.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace server {

template <auto Free>
struct Freer {
    template <class Handle>
    void operator()(Handle* handle) const {
        Free(handle);
    }
};

using Engine = std::unique_ptr<nl_engine, Freer<nl_engine_free>>;
using Tokenizer = std::unique_ptr<nl_tokenizer, Freer<nl_tokenizer_free>>;
using ChatFormat = std::unique_ptr<nl_chat_format, Freer<nl_chat_format_free>>;
using Options = std::unique_ptr<nl_options, Freer<nl_options_free>>;
using Chunk = std::unique_ptr<nl_chunk, Freer<nl_chunk_free>>;
using Cache = std::unique_ptr<nl_cache, Freer<nl_cache_free>>;
using Generation = std::unique_ptr<nl_generation, Freer<nl_generation_free>>;

// Throws the ApiError (api_error.h) that says what went wrong, unless `status` is NL_OK. `param` is the request's field
// that is to blame, or empty.
void must(nl_status status, const std::string& param = "");

// The handle that `make(Handle** out)` gives.
template <class Owner, class Make>
Owner made(Make make, const std::string& param = "") {
    typename Owner::element_type* handle = nullptr;
    must(make(&handle), param);
    return Owner(handle);
}

// The text that `write(buffer, capacity, length)` gives.
template <class Write>
std::string text_of(Write write) {
    std::string text(256, '\0');
    size_t length = 0;
    nl_status status = write(text.data(), text.size(), &length);
    while (status == NL_ERROR_BUFFER_TOO_SMALL) {
        text.resize(length);
        status = write(text.data(), text.size(), &length);
    }
    must(status);
    text.resize(length);
    return text;
}

// The tokens that `write(buffer, capacity, count)` gives; `guess` is room that is probably enough.
template <class Write>
std::vector<int32_t> tokens_of(Write write, size_t guess, const std::string& param = "") {
    std::vector<int32_t> tokens(guess);
    size_t count = 0;
    nl_status status = write(tokens.data(), tokens.size(), &count);
    while (status == NL_ERROR_BUFFER_TOO_SMALL) {
        tokens.resize(count);
        status = write(tokens.data(), tokens.size(), &count);
    }
    must(status, param);
    tokens.resize(count);
    return tokens;
}

// The value of a fact that `query` gives.
template <class Object>
int64_t queried(nl_status (*query)(const Object*, int32_t, int64_t*), const Object* object, int32_t key) {
    int64_t value = 0;
    must(query(object, key, &value));
    return value;
}
inline int64_t fact(const nl_engine* engine, int32_t key) {
    return queried(nl_engine_query, engine, key);
}
inline int64_t fact(const nl_chunk* chunk, int32_t key) {
    return queried(nl_chunk_query, chunk, key);
}
inline int64_t fact(const nl_cache* cache, int32_t key) {
    return queried(nl_cache_query, cache, key);
}
inline int64_t fact(const nl_generation* generation, int32_t key) {
    return queried(nl_generation_query, generation, key);
}

}  // namespace server
