/*
 * One conversation a thread, all of them behind the same records.
 *
 *   parallel [MODEL_FOLDER]
 */
#include <nanolith/nanolith.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kQuestions = 4, kMaxTokens = 256, kMaxAnswer = 32 };

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

typedef struct {
    const nl_engine *engine;
    const nl_tokenizer *tokenizer;
    nl_cache *context;
    const char *question;
    char text[1024]; /* the answer, not terminated */
    size_t length;
    int bad;
} conversation_t;

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
    const uint32_t flags = level == 0 ? NL_ENCODE_ADD_BOS : 0;
    return failed(nl_tokenizer_encode(tokenizer, text, strlen(text), flags, tokens, kMaxTokens, &count)) ||
           failed(nl_chunk_prefill(engine, tokens, count, level, &before, before != NULL, chunk));
}

/* A thread: asks in a fork, which shares the context's pages, and keeps the answer. */
static void *converse(void *argument) {
    conversation_t *self = argument;
    nl_cache *cache = NULL;
    char question[256];
    int32_t tokens[kMaxTokens];
    size_t count = 0;
    snprintf(question, sizeof question, "<|user|> %s<|assistant|>", self->question);
    self->bad =
        failed(nl_cache_fork(self->context, &cache)) ||
        failed(nl_tokenizer_encode(self->tokenizer, question, strlen(question), 0, tokens, kMaxTokens, &count)) ||
        failed(nl_cache_extend(cache, tokens, count));
    for (count = 0; count < kMaxAnswer && !self->bad; ++count) {
        int32_t is_end = 0;
        self->bad = failed(nl_decode_step(&cache, 1, &tokens[count])) ||
                    failed(nl_engine_is_end_token(self->engine, tokens[count], &is_end));
        if (is_end) break;
    }
    if (!self->bad) {
        self->bad =
            failed(nl_tokenizer_decode(self->tokenizer, tokens, count, self->text, sizeof self->text, &self->length));
    }
    nl_cache_free(cache);
    return NULL;
}

static int ask_all(const nl_engine *engine, const nl_tokenizer *tokenizer, nl_cache *context) {
    conversation_t conversations[kQuestions];
    pthread_t threads[kQuestions];
    int started = 0;
    int bad = 0;
    for (; started < kQuestions; ++started) {
        conversations[started] = (conversation_t){engine, tokenizer, context, kQuestion[started], {0}, 0, 0};
        if (pthread_create(&threads[started], NULL, converse, &conversations[started]) != 0) break;
    }
    for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < started; ++i) {
        const conversation_t *self = &conversations[i];
        const size_t space = self->length > 0 && self->text[0] == ' '; /* each answer begins with one */
        bad = bad || self->bad;
        printf("%s %.*s\n", self->question, (int)(self->length - space), self->text + space);
    }
    return bad || started < kQuestions;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "examples/model";
    nl_engine *engine = NULL;
    nl_tokenizer *tokenizer = NULL;
    nl_chunk *chunks[2] = {NULL, NULL};
    nl_cache *context = NULL;
    const int bad = failed(nl_engine_create(model, strlen(model), NULL, &engine)) ||
                    failed(nl_engine_tokenizer(engine, &tokenizer)) ||
                    prefill(engine, tokenizer, kSystem, 0, NULL, &chunks[0]) ||
                    prefill(engine, tokenizer, kRecords, 1, chunks[0], &chunks[1]) ||
                    failed(nl_cache_create(engine, NULL, (const nl_chunk *const *)chunks, 2, &context)) ||
                    ask_all(engine, tokenizer, context);
    nl_cache_free(context);
    nl_chunk_free(chunks[1]);
    nl_chunk_free(chunks[0]);
    nl_tokenizer_free(tokenizer);
    nl_engine_free(engine);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
