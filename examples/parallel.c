/*
 * Several conversations at once, all of them after the same records: the engine answers them in batches, and one
 * thread is enough.
 *
 *   parallel [MODEL_FOLDER]
 */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kQuestions = 4, kMaxTokens = 256 };

static const char *const kSystem =
    "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.";
static const char *const kRecords =
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
    "Beso Bralm paid exactly 39 crowns.<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. "
    "Boso Polm used badge TQ81. Boso Polm worked in Jewick.";
static const char *const kQuestion[kQuestions] = {
    "Name the place where Boso Polm worked.",
    "Name the place where Beso Bralm stayed.",
    "Name the day when Beso Bralm arrived.",
    "Name the day when Boso Polm left.",
};

/* Says what failed. Returns whether something did. */
static int failed(nl_status status) {
    if (status == NL_OK) return 0;
    fprintf(stderr, "%s\n", nl_last_error());
    return 1;
}

static int prefill(nl_engine *engine, const nl_tokenizer *tokenizer, const char *text, int32_t level,
                   const nl_chunk *before, nl_chunk **chunk) {
    int32_t tokens[kMaxTokens];
    size_t count = 0;
    const uint32_t flags = level == NL_LEVEL_SYSTEM ? NL_ENCODE_ADD_BOS : 0;
    return failed(nl_tokenizer_encode(tokenizer, text, strlen(text), flags, tokens, kMaxTokens, &count)) ||
           failed(nl_chunk_prefill(engine, tokens, count, level, &before, before != NULL, chunk));
}

/* Asks in a fork, which shares the context's pages. The generation goes on without the fork's handle. */
static int ask(const nl_tokenizer *tokenizer, nl_cache *context, const char *text, nl_generation **generation) {
    nl_cache *cache = NULL;
    char question[256];
    int32_t tokens[kMaxTokens];
    size_t count = 0;
    snprintf(question, sizeof question, "<|user|> %s<|assistant|>", text);
    const int bad = failed(nl_cache_fork(context, &cache)) ||
                    failed(nl_tokenizer_encode(tokenizer, question, strlen(question), 0, tokens, kMaxTokens, &count)) ||
                    failed(nl_generation_start(cache, tokens, count, NULL, generation));
    nl_cache_free(cache);
    return bad;
}

/* Waits for the whole answer, and prints it. */
static int print_answer(const char *question, nl_generation *generation) {
    char text[1024];
    size_t length = 0;
    int32_t end = NL_END_NONE;
    int first = 1;
    printf("%s ", question);
    do {
        if (failed(nl_generation_next(generation, -1, NULL, 0, NULL, text, sizeof text, &length, &end))) return 1;
        const size_t space = first && length > 0 && text[0] == ' '; /* each answer begins with one */
        fwrite(text + space, 1, length - space, stdout);
        first = first && length == 0;
    } while (end == NL_END_NONE);
    printf("\n");
    return 0;
}

static int ask_all(const nl_tokenizer *tokenizer, nl_cache *context) {
    nl_generation *generations[kQuestions] = {NULL};
    int bad = 0;
    for (int i = 0; i < kQuestions && !bad; ++i) bad = ask(tokenizer, context, kQuestion[i], &generations[i]);
    for (int i = 0; i < kQuestions && !bad; ++i) bad = print_answer(kQuestion[i], generations[i]);
    for (int i = 0; i < kQuestions; ++i) nl_generation_free(generations[i]);
    return bad;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "examples/model";
    nl_engine *engine = NULL;
    nl_tokenizer *tokenizer = NULL;
    nl_chunk *chunks[2] = {NULL, NULL};
    nl_cache *context = NULL;
    const int bad = failed(nl_engine_create(model, strlen(model), NULL, &engine)) ||
                    failed(nl_engine_tokenizer(engine, &tokenizer)) ||
                    prefill(engine, tokenizer, kSystem, NL_LEVEL_SYSTEM, NULL, &chunks[0]) ||
                    prefill(engine, tokenizer, kRecords, NL_LEVEL_CONTEXT, chunks[0], &chunks[1]) ||
                    failed(nl_cache_create(engine, NULL, (const nl_chunk *const *)chunks, 2, &context)) ||
                    ask_all(tokenizer, context);
    nl_cache_free(context);
    nl_chunk_free(chunks[1]);
    nl_chunk_free(chunks[0]);
    nl_tokenizer_free(tokenizer);
    nl_engine_free(engine);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
