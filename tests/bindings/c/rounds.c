/*
 * The measure for the bindings: what C itself needs for the same.
 *
 *   rounds MODEL_FOLDER rounds     10,000 rounds of everything but engines, and 100 of these, leave no memory behind
 *   rounds MODEL_FOLDER leaks      and where they do, that is noticed
 *   rounds MODEL_FOLDER query      nanoseconds that a call costs that does nothing, the best of several runs
 */
#define _DEFAULT_SOURCE
#include <malloc.h>
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void must(nl_status status) {
    if (status == NL_OK) return;
    fprintf(stderr, "%s\n", nl_last_error());
    exit(EXIT_FAILURE);
}

static nl_engine *load(const char *model) {
    nl_options *options = NULL;
    nl_engine *engine = NULL;
    must(nl_options_create(NL_OPTIONS_ENGINE, &options));
    must(nl_options_set_text(options, NL_OPTION_DEVICE, "cpu", 3));
    must(nl_options_set_int(options, NL_OPTION_THREADS, 2));
    must(nl_options_set_int(options, NL_OPTION_PAGE_SIZE, 16));
    must(nl_options_set_int(options, NL_OPTION_NUM_PAGES, 256));
    must(nl_engine_create(model, strlen(model), options, &engine));
    nl_options_free(options);
    return engine;
}

static void use_everything(nl_engine *engine, const nl_chunk *chunk) {
    static const int32_t kTokens[3] = {1, 7, 9};
    static const int32_t kUser = NL_ROLE_USER;
    static const char *const kMessage = "Name";
    static const size_t kLength = 4;
    nl_tokenizer *tokenizer = NULL;
    nl_text_stream *stream = NULL;
    nl_chat_format *format = NULL;
    nl_chunk *again = NULL;
    nl_options *composition = NULL;
    nl_options *sampling = NULL;
    nl_cache *cache = NULL;
    nl_cache *fork = NULL;
    nl_options *until = NULL;
    nl_generation *generation = NULL;
    char text[64];
    int32_t tokens[8];
    size_t length = 0;
    int32_t token = 0;
    int32_t descriptor = 0;
    must(nl_engine_tokenizer(engine, &tokenizer));
    must(nl_text_stream_create(tokenizer, &stream));
    must(nl_text_stream_push(stream, 273, text, sizeof text, &length));
    must(nl_chat_format_create(tokenizer, "plain", 5, &format));
    must(nl_chat_format_render(format, &kUser, &kMessage, &kLength, 1, 0, NULL, tokens, 8, &length));
    must(nl_chunk_prefill(engine, kTokens, 3, 0, NULL, 0, &again));
    must(nl_options_create(NL_OPTIONS_CACHE, &composition));
    must(nl_options_set_int(composition, NL_OPTION_COMPOSITION, NL_COMPOSE_INDEPENDENT));
    const nl_chunk *chunks[2] = {chunk, again};
    must(nl_cache_create(engine, composition, chunks, 2, &cache));
    must(nl_options_create(NL_OPTIONS_SAMPLING, &sampling));
    must(nl_options_set_float(sampling, NL_OPTION_TEMPERATURE, 1));
    must(nl_cache_set_sampling(cache, sampling));
    must(nl_cache_fork(cache, &fork));
    must(nl_options_create(NL_OPTIONS_GENERATION, &until));
    must(nl_options_set_int(until, NL_OPTION_BUFFER_TOKENS, 2)); /* it pauses until it is freed */
    must(nl_generation_start(fork, NULL, 0, until, &generation));
    must(nl_generation_descriptor(generation, &descriptor));
    if (nl_tokenizer_find(tokenizer, "no such piece", 13, &token) != NL_ERROR_NOT_FOUND) exit(EXIT_FAILURE);
    nl_cache_free(cache);
    nl_cache_free(fork);
    nl_generation_free(generation);
    nl_options_free(until);
    nl_options_free(sampling);
    nl_options_free(composition);
    nl_chunk_free(again);
    nl_tokenizer_free(tokenizer);
    nl_chat_format_free(format);
    nl_text_stream_free(stream);
}

/* Bytes that the C heap has given out. */
static long heap_bytes(void) {
    const struct mallinfo2 info = mallinfo2();
    return (long)(info.uordblks + info.hblkhd);
}

static long resident_bytes(void) {
    long size = 0;
    long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) exit(EXIT_FAILURE);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/*
 * Whether `count` rounds, after as many to warm up, leave memory behind. What the heap has given out tells nearly
 * exactly; what the process has in memory also shows what is mapped, but varies with the heap's holes and threads.
 * So what leaks is what grows every time: the rest settles.
 */
static int grows(const char *what, int count, void (*round)(void *), void *context) {
    for (int i = 0; i < count; ++i) round(context);
    for (int attempt = 0; attempt < 3; ++attempt) {
        const long heap = heap_bytes();
        const long resident = resident_bytes();
        for (int i = 0; i < count; ++i) round(context);
        const long heap_grown = heap_bytes() - heap;
        const long resident_grown = resident_bytes() - resident;
        printf("%d %s: heap %ld bytes more, resident %ld KiB more\n", count, what, heap_grown, resident_grown / 1024);
        if (heap_grown < 64 << 10 && resident_grown < 32 << 20) return 0;
    }
    return 1;
}

typedef struct {
    const char *model;
    nl_engine *engine;
    nl_chunk *chunk;
} context_t;

static void one_round(void *context) {
    use_everything(((context_t *)context)->engine, ((context_t *)context)->chunk);
}

static void one_engine(void *context) {
    nl_engine_free(load(((context_t *)context)->model));
}

static int rounds(const char *model) {
    static const int32_t kTokens[3] = {1, 7, 9};
    context_t context = {model, load(model), NULL};
    must(nl_chunk_prefill(context.engine, kTokens, 3, 0, NULL, 0, &context.chunk));
    const int bad = grows("rounds", 10000, one_round, &context);
    nl_chunk_free(context.chunk);
    nl_engine_free(context.engine);
    return grows("engines", 100, one_engine, &context) || bad;
}

static void forget_a_stream(void *tokenizer) {
    nl_text_stream *stream = NULL;
    must(nl_text_stream_create(tokenizer, &stream));
}

static void forget_a_page(void *unused) {
    (void)unused;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) exit(EXIT_FAILURE);
    page[0] = 1;
}

static int leaks(const char *model) {
    nl_tokenizer *tokenizer = NULL;
    must(nl_tokenizer_load(model, strlen(model), &tokenizer));
    const int noticed = grows("forgotten streams", 10000, forget_a_stream, tokenizer) &&
                        grows("forgotten pages", 10000, forget_a_page, NULL);
    nl_tokenizer_free(tokenizer);
    return !noticed;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int query(const char *model) {
    nl_engine *engine = load(model);
    double best = 1e18;
    for (int run = 0; run < 20; ++run) {
        const double start = now();
        for (int i = 0; i < 100000; ++i) {
            int64_t value = 0;
            must(nl_engine_query(engine, NL_ENGINE_NUM_LAYERS, &value));
        }
        const double each = (now() - start) / 1e5;
        if (each < best) best = each;
    }
    printf("query: %.0f ns\n", best);
    nl_engine_free(engine);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc == 3 ? argv[2] : "";
    if (strcmp(what, "rounds") == 0) return rounds(argv[1]);
    if (strcmp(what, "leaks") == 0) return leaks(argv[1]);
    if (strcmp(what, "query") == 0) return query(argv[1]);
    return fprintf(stderr, "rounds MODEL_FOLDER rounds|leaks|query\n"), EXIT_FAILURE;
}
