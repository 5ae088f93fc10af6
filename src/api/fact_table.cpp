#include "api/fact_table.h"

#include <algorithm>

namespace nanolith::api {
namespace {

// In the order of kinds and keys.
constexpr Fact kFacts[] = {
    {NL_FACTS_ENGINE, NL_ENGINE_VOCAB_SIZE, "VOCAB_SIZE", "logits", "Logits a token."},
    {NL_FACTS_ENGINE, NL_ENGINE_NUM_LAYERS, "NUM_LAYERS", "layers", "Layers of the model."},
    {NL_FACTS_ENGINE, NL_ENGINE_HIDDEN_SIZE, "HIDDEN_SIZE", "elements", "Elements of a token's hidden state."},
    {NL_FACTS_ENGINE, NL_ENGINE_NUM_HEADS, "NUM_HEADS", "heads", "Query heads."},
    {NL_FACTS_ENGINE, NL_ENGINE_NUM_KV_HEADS, "NUM_KV_HEADS", "heads", "KV heads."},
    {NL_FACTS_ENGINE, NL_ENGINE_HEAD_DIM, "HEAD_DIM", "elements", "Elements of a head."},
    {NL_FACTS_ENGINE, NL_ENGINE_MAX_CONTEXT, "MAX_CONTEXT", "tokens", "Tokens that a cache may hold."},
    {NL_FACTS_ENGINE, NL_ENGINE_DTYPE, "DTYPE", "NL_DTYPE", "Format of weights and activations, never NL_DTYPE_AUTO."},
    {NL_FACTS_ENGINE, NL_ENGINE_PAGE_SIZE, "PAGE_SIZE", "tokens", "Tokens a page."},
    {NL_FACTS_ENGINE, NL_ENGINE_PAGE_BYTES, "PAGE_BYTES", "bytes", "Bytes a page, over all layers."},
    {NL_FACTS_ENGINE, NL_ENGINE_PAGES_TOTAL, "PAGES_TOTAL", "pages", "Pages in the pool."},
    {NL_FACTS_ENGINE, NL_ENGINE_PAGES_FREE, "PAGES_FREE", "pages", "Pages on the free list now."},
    {NL_FACTS_ENGINE, NL_ENGINE_PAGES_EVICTABLE, "PAGES_EVICTABLE", "pages",
     "Pages held only by chunks that nobody uses; freed when pages run short."},
    {NL_FACTS_ENGINE, NL_ENGINE_PARAMETERS, "PARAMETERS", "weights", "Weights of the model, a tied head counted once."},
    {NL_FACTS_ENGINE, NL_ENGINE_CHUNKS, "CHUNKS", "chunks", "Chunks in the device's pages now."},
    {NL_FACTS_ENGINE, NL_ENGINE_HOST_CHUNKS, "HOST_CHUNKS", "chunks", "Chunks in the host's memory now."},
    {NL_FACTS_ENGINE, NL_ENGINE_HOST_BYTES, "HOST_BYTES", "bytes", "Bytes that these take."},
    {NL_FACTS_ENGINE, NL_ENGINE_FILE_CHUNKS, "FILE_CHUNKS", "chunks", "Chunks in files of the store's folder."},
    {NL_FACTS_ENGINE, NL_ENGINE_FILE_BYTES, "FILE_BYTES", "bytes", "Bytes that these take."},
    {NL_FACTS_ENGINE, NL_ENGINE_HITS, "HITS", "chunks", "Chunks asked for that were in the device's pages."},
    {NL_FACTS_ENGINE, NL_ENGINE_HOST_HITS, "HOST_HITS", "chunks", "Chunks asked for that the host's memory had."},
    {NL_FACTS_ENGINE, NL_ENGINE_FILE_HITS, "FILE_HITS", "chunks", "Chunks asked for that were read from files."},
    {NL_FACTS_ENGINE, NL_ENGINE_MISSES, "MISSES", "chunks", "Chunks asked for that were computed."},
    {NL_FACTS_ENGINE, NL_ENGINE_TOKENS_REUSED, "TOKENS_REUSED", "tokens",
     "Tokens of chunks that were not computed when they were asked for."},
    {NL_FACTS_ENGINE, NL_ENGINE_TOKENS_COMPUTED, "TOKENS_COMPUTED", "tokens",
     "Tokens of chunks that were computed when they were asked for."},
    {NL_FACTS_ENGINE, NL_ENGINE_EVICTIONS, "EVICTIONS", "chunks", "Chunks evicted from the device's pages."},
    {NL_FACTS_ENGINE, NL_ENGINE_SERVER_HITS, "SERVER_HITS", "chunks",
     "Chunks asked for that were read from the store's server."},
    {NL_FACTS_ENGINE, NL_ENGINE_CHUNK_BYTES, "CHUNK_BYTES", "bytes", "Bytes of the chunks in the device's pages now."},
    {NL_FACTS_ENGINE, NL_ENGINE_HOST_MOVES, "HOST_MOVES", "chunks", "Evicted chunks copied to the host's memory."},
    {NL_FACTS_ENGINE, NL_ENGINE_FILE_MOVES, "FILE_MOVES", "chunks", "Chunks written to files of the store's folder."},
    {NL_FACTS_ENGINE, NL_ENGINE_SERVER_MOVES, "SERVER_MOVES", "chunks", "Chunks sent to the store's server."},
    {NL_FACTS_ENGINE, NL_ENGINE_DEVICE_MOVES, "DEVICE_MOVES", "chunks",
     "Chunks brought to the device's pages from one of these."},
    {NL_FACTS_ENGINE, NL_ENGINE_SAVED_MS, "SAVED_MS", "milliseconds",
     "What computing the tokens reused would have taken, less what bringing them took."},
    {NL_FACTS_TOKENIZER, NL_TOKENIZER_VOCAB_SIZE, "VOCAB_SIZE", "tokens", "Tokens of the vocabulary."},
    {NL_FACTS_TOKENIZER, NL_TOKENIZER_BOS, "BOS", "token", "The beginning-of-sequence token, or -1."},
    {NL_FACTS_TOKENIZER, NL_TOKENIZER_EOS, "EOS", "token", "The end-of-sequence token, or -1."},
    {NL_FACTS_TOKENIZER, NL_TOKENIZER_UNK, "UNK", "token", "The token for what is unknown, or -1."},
    {NL_FACTS_TOKENIZER, NL_TOKENIZER_PAD, "PAD", "token", "The padding token, or -1."},
    {NL_FACTS_CHUNK, NL_CHUNK_TOKENS, "TOKENS", "tokens", "Tokens of the chunk."},
    {NL_FACTS_CHUNK, NL_CHUNK_LEVEL, "LEVEL", "NL_LEVEL", "Its place in the cascade."},
    {NL_FACTS_CHUNK, NL_CHUNK_PAGES, "PAGES", "pages", "Pages that it holds."},
    {NL_FACTS_CHUNK, NL_CHUNK_BYTES, "BYTES", "bytes", "Pages times page bytes."},
    {NL_FACTS_CHUNK, NL_CHUNK_TOKENS_COMPUTED, "TOKENS_COMPUTED", "tokens",
     "Tokens computed by the call that gave this handle; 0 where it was in the store."},
    {NL_FACTS_CHUNK, NL_CHUNK_USERS, "USERS", "users", "Handles and caches that hold it now, and calls under way."},
    {NL_FACTS_CHUNK, NL_CHUNK_ORIGIN, "ORIGIN", "NL_ORIGIN", "Where the call that gave this handle had it from."},
    {NL_FACTS_CHUNK, NL_CHUNK_PRIORITY, "PRIORITY", "NL_PRIORITY", "How long it is kept while nothing uses it."},
    {NL_FACTS_CACHE, NL_CACHE_TOKENS, "TOKENS", "tokens", "Tokens of the context."},
    {NL_FACTS_CACHE, NL_CACHE_PAGES, "PAGES", "pages", "Pages that it uses, its chunks' included."},
    {NL_FACTS_CACHE, NL_CACHE_PRIVATE_PAGES, "PRIVATE_PAGES", "pages", "Pages of these outside chunks."},
    {NL_FACTS_CACHE, NL_CACHE_BYTES, "BYTES", "bytes", "Pages times page bytes."},
    {NL_FACTS_CACHE, NL_CACHE_TOKENS_REUSED, "TOKENS_REUSED", "tokens",
     "Tokens taken from chunks or from a fork's origin without computing them."},
    {NL_FACTS_CACHE, NL_CACHE_TOKENS_COMPUTED, "TOKENS_COMPUTED", "tokens", "Tokens computed for this cache so far."},
    {NL_FACTS_CACHE, NL_CACHE_TOKENS_BLENDED, "TOKENS_BLENDED", "tokens",
     "Tokens of chunks that were computed again for this cache."},
    {NL_FACTS_CACHE, NL_CACHE_COMPOSITION, "COMPOSITION", "NL_COMPOSE", "How its chunks were composed in the end."},
    {NL_FACTS_CACHE, NL_CACHE_CHUNK_TOKENS_REUSED, "CHUNK_TOKENS_REUSED", "tokens",
     "Tokens reused that are those of chunks."},
    {NL_FACTS_CACHE, NL_CACHE_SAVED_MS, "SAVED_MS", "milliseconds",
     "What computing the tokens reused would have taken, less what bringing chunks took."},
    {NL_FACTS_GENERATION, NL_GENERATION_TOKENS, "TOKENS", "tokens", "Tokens drawn so far."},
    {NL_FACTS_GENERATION, NL_GENERATION_TOKENS_REUSED, "TOKENS_REUSED", "tokens",
     "Tokens of the context at its start that were computed already."},
    {NL_FACTS_GENERATION, NL_GENERATION_TOKENS_COMPUTED, "TOKENS_COMPUTED", "tokens",
     "Tokens computed for it so far, those that it drew included."},
    {NL_FACTS_GENERATION, NL_GENERATION_QUEUED_US, "QUEUED_US", "microseconds",
     "From its start to its first step, or until now, or its end."},
    {NL_FACTS_GENERATION, NL_GENERATION_FIRST_TOKEN_US, "FIRST_TOKEN_US", "microseconds",
     "From its start to its first token; -1 until there is one."},
    {NL_FACTS_GENERATION, NL_GENERATION_TOTAL_US, "TOTAL_US", "microseconds",
     "From its start to its end, or until now."},
    {NL_FACTS_GENERATION, NL_GENERATION_TOKENS_PER_SECOND, "TOKENS_PER_SECOND", "tokens a second",
     "After the first token, rounded down; 0 while there is one or none."},
    {NL_FACTS_GENERATION, NL_GENERATION_END, "END", "NL_END", "Why it ended; NL_END_NONE while it runs."},
};
static_assert(std::ranges::is_sorted(kFacts, {}, &Fact::kind));

}  // namespace

std::span<const Fact> facts_of(int32_t kind) {
    return {std::ranges::lower_bound(kFacts, kind, {}, &Fact::kind),
            std::ranges::upper_bound(kFacts, kind, {}, &Fact::kind)};
}

std::string key_in_json(const Fact& fact) {
    std::string key = fact.name;
    // Names are ASCII; std::tolower would ask the program's locale.
    for (char& letter : key)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return key;
}

Error unknown_fact(int32_t kind, int32_t fact, const char* prefix) {
    const auto facts = facts_of(kind);
    return fail(NL_ERROR_INVALID_ARGUMENT, "fact is ", fact, ": expected one of NL_", prefix, "_*, ", facts.front().key,
                " to ", facts.back().key);
}

}  // namespace nanolith::api
