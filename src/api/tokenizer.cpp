#include <utility>

#include "api/fact_table.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/path.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<int64_t> tokenizer_fact(const Tokenizer& tokenizer, int32_t fact) {
    switch (fact) {
        case NL_TOKENIZER_VOCAB_SIZE:
            return tokenizer.vocab_size();
        case NL_TOKENIZER_BOS:
            return tokenizer.bos();
        case NL_TOKENIZER_EOS:
            return tokenizer.eos();
        case NL_TOKENIZER_UNK:
            return tokenizer.unk();
        case NL_TOKENIZER_PAD:
            return tokenizer.pad();
        default:
            return unknown_fact(NL_FACTS_TOKENIZER, fact, "TOKENIZER");
    }
}

}  // namespace

extern "C" {

nl_status nl_engine_tokenizer(const nl_engine* engine, nl_tokenizer** tokenizer) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(engine, "engine"));
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        const auto& loaded = engine->engine->tokenizer();
        if (!loaded.ok()) return loaded.error();
        *tokenizer = new nl_tokenizer{*loaded};
        return {};
    });
}

nl_status nl_tokenizer_load(const char* path, size_t path_length, nl_tokenizer** tokenizer) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_ASSIGN(const std::string folder, check_path(path, path_length));
        NL_ASSIGN(auto loaded, Tokenizer::load(folder));
        *tokenizer = new nl_tokenizer{std::move(loaded)};
        return {};
    });
}

void nl_tokenizer_free(nl_tokenizer* tokenizer) {
    drop(tokenizer);
}

nl_status nl_tokenizer_encode(const nl_tokenizer* tokenizer, const char* text, size_t text_length, uint32_t flags,
                              int32_t* tokens, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto span, check_array(text, text_length, "text", "text_length"));
        NL_ASSIGN(const auto encoded, tokenizer->tokenizer->encode({span.data(), span.size()}, flags));
        return give<int32_t>(encoded, tokens, capacity, count);
    });
}

nl_status nl_tokenizer_decode(const nl_tokenizer* tokenizer, const int32_t* tokens, size_t num_tokens, char* buffer,
                              size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(length, "length"));
        NL_ASSIGN(const auto span, check_array(tokens, num_tokens, "tokens", "num_tokens"));
        NL_ASSIGN(const std::string text, tokenizer->tokenizer->decode(span));
        return give_text(text, buffer, capacity, length);
    });
}

nl_status nl_tokenizer_query(const nl_tokenizer* tokenizer, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(value, "value"));
        NL_ASSIGN(*value, tokenizer_fact(*tokenizer->tokenizer, fact));
        return {};
    });
}

nl_status nl_tokenizer_find(const nl_tokenizer* tokenizer, const char* piece, size_t length, int32_t* token) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(token, "token"));
        NL_ASSIGN(const auto span, check_array(piece, length, "piece", "length"));
        NL_ASSIGN(*token, tokenizer->tokenizer->find({span.data(), span.size()}));
        return {};
    });
}

nl_status nl_tokenizer_piece(const nl_tokenizer* tokenizer, int32_t token, char* buffer, size_t capacity,
                             size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(length, "length"));
        NL_ASSIGN(const std::string piece, tokenizer->tokenizer->piece(token));
        return give_text(piece, buffer, capacity, length);
    });
}

nl_status nl_text_stream_create(const nl_tokenizer* tokenizer, nl_text_stream** stream) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(stream, "stream"));
        *stream = new nl_text_stream{TextStream(tokenizer->tokenizer)};
        return {};
    });
}

void nl_text_stream_free(nl_text_stream* stream) {
    drop(stream);
}

nl_status nl_text_stream_push(nl_text_stream* stream, int32_t token, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(stream, "stream"));
        NL_TRY(check_pointer(length, "length"));
        TextStream next = stream->stream;  // kept only if the text found room
        NL_ASSIGN(const std::string text, next.push(token));
        NL_TRY(give_text(text, buffer, capacity, length));
        stream->stream = std::move(next);
        return {};
    });
}

nl_status nl_text_stream_finish(nl_text_stream* stream, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(stream, "stream"));
        NL_TRY(check_pointer(length, "length"));
        TextStream next = stream->stream;
        NL_TRY(give_text(next.finish(), buffer, capacity, length));
        stream->stream = std::move(next);
        return {};
    });
}

}  // extern "C"
