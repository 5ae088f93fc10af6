/*
 * Answers two questions from records that are computed once, each with the records in another order. The program is
 * not linked to libnanolith: it opens it with dlopen, and takes from nanolith.h types and constants only.
 *
 *   dlopen_client [MODEL_FOLDER [LIBRARY]]
 */
#include <dlfcn.h>
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRecords = 3, kMaxTokens = 256 };

static const char *const kSystem =
    "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";
static const char *const kRecord[kRecords] = {
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
    "Beso Bralm paid exactly 39 crowns.",
    "<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. "
    "Jemi Nuld traded in Foham.",
    "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. "
    "Boso Polm worked in Jewick.",
};

/* ---- The library: one pointer for each function that this program calls ----------------------------------------- */

static struct {
    const char *(*last_error)(void);
    nl_status (*engine_create)(const char *, size_t, const nl_options *, nl_engine **);
    void (*engine_free)(nl_engine *);
    nl_status (*engine_tokenizer)(const nl_engine *, nl_tokenizer **);
    void (*tokenizer_free)(nl_tokenizer *);
    nl_status (*tokenizer_encode)(const nl_tokenizer *, const char *, size_t, uint32_t, int32_t *, size_t, size_t *);
    nl_status (*chunk_prefill)(nl_engine *, const int32_t *, size_t, int32_t, const nl_chunk *const *, size_t,
                               nl_chunk **);
    void (*chunk_free)(nl_chunk *);
    nl_status (*options_create)(int32_t, nl_options **);
    void (*options_free)(nl_options *);
    nl_status (*options_set_int)(nl_options *, int32_t, int64_t);
    nl_status (*cache_create)(nl_engine *, const nl_options *, const nl_chunk *const *, size_t, nl_cache **);
    void (*cache_free)(nl_cache *);
    nl_status (*cache_query)(const nl_cache *, int32_t, int64_t *);
    nl_status (*generation_start)(nl_cache *, const int32_t *, size_t, const nl_options *, nl_generation **);
    nl_status (*generation_next)(nl_generation *, int64_t, int32_t *, size_t, size_t *, char *, size_t, size_t *,
                                 int32_t *);
    void (*generation_free)(nl_generation *);
} nl;

static const struct {
    const char *name;
    void *pointer; /* where in `nl` it goes */
} kFunctions[] = {
    {"nl_last_error", &nl.last_error},
    {"nl_engine_create", &nl.engine_create},
    {"nl_engine_free", &nl.engine_free},
    {"nl_engine_tokenizer", &nl.engine_tokenizer},
    {"nl_tokenizer_free", &nl.tokenizer_free},
    {"nl_tokenizer_encode", &nl.tokenizer_encode},
    {"nl_chunk_prefill", &nl.chunk_prefill},
    {"nl_chunk_free", &nl.chunk_free},
    {"nl_options_create", &nl.options_create},
    {"nl_options_free", &nl.options_free},
    {"nl_options_set_int", &nl.options_set_int},
    {"nl_cache_create", &nl.cache_create},
    {"nl_cache_free", &nl.cache_free},
    {"nl_cache_query", &nl.cache_query},
    {"nl_generation_start", &nl.generation_start},
    {"nl_generation_next", &nl.generation_next},
    {"nl_generation_free", &nl.generation_free},
};

/* RTLD_LOCAL leaves symbols of the same names in other libraries (libnl-3 has an nl_cache_free too) to those. */
static int open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    for (size_t i = 0; i < sizeof kFunctions / sizeof kFunctions[0]; ++i) {
        void *symbol = dlsym(library, kFunctions[i].name);
        if (symbol == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
        memcpy(kFunctions[i].pointer, &symbol, sizeof symbol);
    }
    return 0;
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

static nl_engine *engine;
static nl_tokenizer *tokenizer;

/* Says what failed. Returns whether something did. */
static int failed(nl_status status) {
    if (status == NL_OK) return 0;
    fprintf(stderr, "%s\n", nl.last_error());
    return 1;
}

static int prefill(const char *text, int32_t level, nl_chunk **chunk) {
    int32_t tokens[kMaxTokens];
    size_t count = 0;
    const uint32_t flags = level == NL_LEVEL_SYSTEM ? NL_ENCODE_ADD_BOS : 0;
    return failed(nl.tokenizer_encode(tokenizer, text, strlen(text), flags, tokens, kMaxTokens, &count)) ||
           failed(nl.chunk_prefill(engine, tokens, count, level, NULL, 0, chunk));
}

static int begin(const nl_chunk *const *chunks, size_t num_chunks, nl_cache **cache) {
    nl_options *options = NULL;
    const int bad = failed(nl.options_create(NL_OPTIONS_CACHE, &options)) ||
                    failed(nl.options_set_int(options, NL_OPTION_COMPOSITION, NL_COMPOSE_INDEPENDENT)) ||
                    failed(nl.cache_create(engine, options, chunks, num_chunks, cache));
    nl.options_free(options);
    return bad;
}

/* Starts an answer after the question, and prints its text as it comes. */
static int answer(nl_cache *cache, const char *question) {
    nl_generation *generation = NULL;
    char text[256];
    int32_t tokens[kMaxTokens];
    size_t count = 0;
    int32_t end = NL_END_NONE;
    snprintf(text, sizeof text, "<|user|> %s<|assistant|>", question);
    int bad = failed(nl.tokenizer_encode(tokenizer, text, strlen(text), 0, tokens, kMaxTokens, &count)) ||
              failed(nl.generation_start(cache, tokens, count, NULL, &generation));
    while (!bad && end == NL_END_NONE) {
        bad = failed(nl.generation_next(generation, -1, NULL, 0, NULL, text, sizeof text, &count, &end));
        if (!bad) fwrite(text, 1, count, stdout);
        fflush(stdout);
    }
    nl.generation_free(generation);
    return bad;
}

static int ask(const nl_chunk *const *chunks, size_t num_chunks, const char *question) {
    nl_cache *cache = NULL;
    int64_t reused = 0;
    printf("> %s\n", question);
    const int bad = begin(chunks, num_chunks, &cache) || answer(cache, question) ||
                    failed(nl.cache_query(cache, NL_CACHE_TOKENS_REUSED, &reused));
    if (!bad) printf("\n  reused %lld tokens\n", (long long)reused);
    nl.cache_free(cache);
    return bad;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "examples/model";
    nl_chunk *system = NULL;
    nl_chunk *record[kRecords] = {NULL};
    if (open_library(argc > 2 ? argv[2] : "libnanolith.so.0")) return EXIT_FAILURE;

    int bad = failed(nl.engine_create(model, strlen(model), NULL, &engine)) ||
              failed(nl.engine_tokenizer(engine, &tokenizer)) || prefill(kSystem, NL_LEVEL_SYSTEM, &system);
    for (int i = 0; i < kRecords && !bad; ++i) bad = prefill(kRecord[i], NL_LEVEL_CONTEXT, &record[i]);
    if (!bad) {
        const nl_chunk *first[] = {system, record[0], record[1], record[2]};
        const nl_chunk *second[] = {system, record[2], record[0], record[1]};
        bad = ask(first, 4, "Name the place where Boso Polm worked.") ||
              ask(second, 4, "Name the price that Jemi Nuld offered.");
    }
    for (int i = 0; i < kRecords; ++i) nl.chunk_free(record[i]);
    nl.chunk_free(system);
    nl.tokenizer_free(tokenizer);
    nl.engine_free(engine);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
