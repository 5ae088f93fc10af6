/*
 * chat_chunked: documents are read once, then many questions are answered from them.
 *
 * A system text and some documents are prefilled into chunks. Each question then names its documents in an order of
 * its own, and its conversation begins with those chunks without computing them again. Plain C99 against
 * nanolith.h: copy from here.
 *
 *   cc -std=c99 chat_chunked.c $(pkg-config --cflags --libs nanolith) -o chat_chunked
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef NL_EXAMPLE_MODEL
#define NL_EXAMPLE_MODEL "examples/model"
#endif

/* What stands around a question in the prompt of the models in examples/model. */
static const char kBeforeQuestion[] = "<|user|> ";
static const char kAfterQuestion[] = "<|assistant|>";

enum { kMaxDocuments = 64, kMaxQuestions = 64, kMaxAnswer = 64, kMaxText = 4096 };

/* ---- Errors: one helper for all ---------------------------------------------------------------- */

/* Says what went wrong and returns 1 when a call failed; returns 0 when it did not. */
static int failed(nl_status status, const char *doing) {
    if (status == NL_OK) return 0;
    fflush(stdout);
    fprintf(stderr, "%s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    return 1;
}

static int out_of_memory(void) {
    fprintf(stderr, "out of memory\n");
    return 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Options ------------------------------------------------------------------------------------ */

typedef struct {
    const char *model;
    const char *demo;
    const char *device;
    const char *composition; /* NULL: each question's own */
    const char *store;       /* a folder; NULL: chunks are not kept in files */
    const char *host;        /* bytes of the host's memory for evicted chunks; NULL: none */
    const char *server;      /* a Redis server's address; NULL: chunks are not kept on one */
    int chat;
} options_t;

static void print_help(FILE *out) {
    fprintf(out,
            "usage: chat_chunked [options]\n"
            "  --model DIR                        model folder (default %s)\n"
            "  --demo FILE                        documents and questions (default DIR/demo.txt)\n"
            "  --device auto|cpu|cuda             where to compute (default auto)\n"
            "  --composition exact|independent    how documents are put together (default independent)\n"
            "  --store DIR                        keep chunks in files there, and take those that are there\n"
            "  --host BYTES                       keep evicted chunks in so much of the host's memory\n"
            "  --server redis://HOST              keep chunks on a Redis server, and take those that are there\n"
            "  --chat                             type questions about all documents\n"
            "  --help                             this text\n",
            NL_EXAMPLE_MODEL);
}

/* Returns 0, or 1 where an option is wrong. */
static int parse_options(int argc, char **argv, options_t *options) {
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        const char **value = NULL;
        if (strcmp(name, "--help") == 0) {
            print_help(stdout);
            exit(EXIT_SUCCESS);
        }
        if (strcmp(name, "--chat") == 0) {
            options->chat = 1;
            continue;
        }
        if (strcmp(name, "--model") == 0) value = &options->model;
        if (strcmp(name, "--demo") == 0) value = &options->demo;
        if (strcmp(name, "--device") == 0) value = &options->device;
        if (strcmp(name, "--composition") == 0) value = &options->composition;
        if (strcmp(name, "--store") == 0) value = &options->store;
        if (strcmp(name, "--host") == 0) value = &options->host;
        if (strcmp(name, "--server") == 0) value = &options->server;
        if (value == NULL || i + 1 == argc) {
            fprintf(stderr, value == NULL ? "unknown option %s\n" : "%s needs a value\n", name);
            print_help(stderr);
            return 1;
        }
        *value = argv[++i];
    }
    if (options->composition != NULL && strcmp(options->composition, "exact") != 0 &&
        strcmp(options->composition, "independent") != 0) {
        fprintf(stderr, "--composition is %s, expected exact or independent\n", options->composition);
        return 1;
    }
    return 0;
}

/* ---- The demo file ------------------------------------------------------------------------------ */

/*
 * Lines of "name: value"; empty lines and lines that begin with # do not count. The texts are whole chunks, the model's
 * markers included.
 *   system: TEXT
 *   document: TEXT                               counted from 1
 *   question: NUMBERS | TEXT | ANSWER | MODE     NUMBERS are the documents that stand before it, in this order; ANSWER
 *                                                is known to be what the model says, in MODE "independent" with either
 *                                                composition, in MODE "full" only with the exact one
 */
typedef struct {
    char *text;
    nl_chunk *chunk;
} document_t;

typedef struct {
    char *text;
    char *answer;
    int needs_exact;
    int32_t composition;
    int documents[kMaxDocuments];
    int num_documents;
    /* what came of it */
    char said[kMaxText];
    int right;
    double first_token_ms;
    double tokens_per_second;
    int64_t reused;
    int64_t computed;
} question_t;

typedef struct {
    char *file; /* the whole file; the texts point into it */
    char *system;
    document_t documents[kMaxDocuments];
    int num_documents;
    question_t questions[kMaxQuestions];
    int num_questions;
} demo_t;

/* Cuts `text` at the next " | " and returns what is after it, or NULL. */
static char *cut(char *text) {
    char *bar = text != NULL ? strstr(text, " | ") : NULL;
    if (bar == NULL) return NULL;
    *bar = '\0';
    return bar + 3;
}

static int parse_question(const demo_t *demo, question_t *question, char *numbers) {
    question->text = cut(numbers);
    question->answer = cut(question->text);
    const char *mode = cut(question->answer);
    if (mode == NULL) return 1;
    question->needs_exact = strcmp(mode, "full") == 0;
    question->composition = question->needs_exact ? NL_COMPOSE_EXACT : NL_COMPOSE_INDEPENDENT;
    if (!question->needs_exact && strcmp(mode, "independent") != 0) return 1;
    for (char *end = numbers; *numbers != '\0'; numbers = end + strspn(end, " ")) {
        const long number = strtol(numbers, &end, 10);
        if (end == numbers || number < 1 || number > demo->num_documents) return 1;
        if (question->num_documents == kMaxDocuments) return 1;
        question->documents[question->num_documents++] = (int)number - 1;
    }
    return 0;
}

/* Returns 0, or 1 where the line is not understood. */
static int parse_line(demo_t *demo, char *line) {
    char *value = strstr(line, ": ");
    if (value == NULL) return 1;
    *value = '\0';
    value += 2;
    if (strcmp(line, "system") == 0) {
        demo->system = value;
        return 0;
    }
    if (strcmp(line, "document") == 0 && demo->num_documents < kMaxDocuments) {
        demo->documents[demo->num_documents++].text = value;
        return 0;
    }
    if (strcmp(line, "question") == 0 && demo->num_questions < kMaxQuestions)
        return parse_question(demo, &demo->questions[demo->num_questions++], value);
    return 1;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file == NULL) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        if (size >= 0) text = malloc((size_t)size + 1);
        if (text != NULL) text[fread(text, 1, (size_t)size, file)] = '\0';
    }
    fclose(file);
    return text;
}

/* Returns 0, or 1 after saying what is wrong. */
static int read_demo(demo_t *demo, const char *path) {
    demo->file = read_file(path);
    if (demo->file == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    int number = 0;
    for (char *line = demo->file; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        ++number;
        if (*line != '\0' && *line != '#' && parse_line(demo, line) != 0) {
            fprintf(stderr, "%s: line %d is not understood\n", path, number);
            return 1;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    if (demo->system == NULL || demo->num_documents == 0) {
        fprintf(stderr, "%s has no system text or no documents\n", path);
        return 1;
    }
    return 0;
}

/* ---- Text and tokens ---------------------------------------------------------------------------- */

typedef struct {
    int32_t *ids;
    size_t count;
} tokens_t;

/* The result's ids are freed by the caller. Returns 0, or 1 on an error. */
static int encode(const nl_tokenizer *tokenizer, const char *text, uint32_t flags, tokens_t *tokens) {
    /* The first call tells how much room the second one needs. */
    nl_status status = nl_tokenizer_encode(tokenizer, text, strlen(text), flags, NULL, 0, &tokens->count);
    tokens->ids = NULL;
    if (status == NL_ERROR_BUFFER_TOO_SMALL) {
        tokens->ids = malloc(tokens->count * sizeof *tokens->ids);
        if (tokens->ids == NULL) return out_of_memory();
        status = nl_tokenizer_encode(tokenizer, text, strlen(text), flags, tokens->ids, tokens->count, &tokens->count);
    }
    return failed(status, "encoding a text");
}

/* ---- The session: an engine with the demo's chunks ----------------------------------------------- */

typedef struct {
    nl_engine *engine;
    nl_tokenizer *tokenizer;
    nl_chunk *system;
    int num_from_files; /* chunks that the store had in files */
    char device[128];
} session_t;

/* The tiers below the device's pages that the options name. Returns 0, or 1 on an error. */
static int set_tiers(nl_options *engine_options, const options_t *options) {
    char *end = NULL;
    const long long bytes = options->host != NULL ? strtoll(options->host, &end, 10) : 0;
    if (options->host != NULL && (end == options->host || *end != '\0')) {
        fprintf(stderr, "--host is %s, expected a number of bytes\n", options->host);
        return 1;
    }
    return (options->host != NULL &&
            failed(nl_options_set_int(engine_options, NL_OPTION_HOST_BYTES, bytes), "choosing memory for chunks")) ||
           (options->store != NULL &&
            failed(nl_options_set_text(engine_options, NL_OPTION_STORE_FOLDER, options->store, strlen(options->store)),
                   "choosing the folder for chunks")) ||
           (options->server != NULL && failed(nl_options_set_text(engine_options, NL_OPTION_STORE_SERVER,
                                                                  options->server, strlen(options->server)),
                                              "choosing the server for chunks"));
}

static int open_session(session_t *session, const options_t *options) {
    nl_options *engine_options = NULL;
    size_t length = 0;
    const double start = now();
    int bad = failed(nl_options_create(NL_OPTIONS_ENGINE, &engine_options), "making options") ||
              failed(nl_options_set_text(engine_options, NL_OPTION_DEVICE, options->device, strlen(options->device)),
                     "choosing the device") ||
              set_tiers(engine_options, options) ||
              failed(nl_engine_create(options->model, strlen(options->model), engine_options, &session->engine),
                     "loading the model") ||
              failed(nl_engine_tokenizer(session->engine, &session->tokenizer), "getting the tokenizer") ||
              failed(nl_engine_device(session->engine, session->device, sizeof session->device - 1, &length),
                     "asking for the device");
    nl_options_free(engine_options);
    if (bad) return 1;
    session->device[length] = '\0';
    printf("Loaded %s on %s in %.2f s\n", options->model, session->device, now() - start);
    return 0;
}

static const char kFromFile[] = "from its file";

/* Where a chunk came from, for people. */
static const char *origin_of(const nl_chunk *chunk) {
    int64_t origin = NL_ORIGIN_COMPUTED;
    if (nl_chunk_query(chunk, NL_CHUNK_ORIGIN, &origin) != NL_OK) return "unknown";
    switch (origin) {
        case NL_ORIGIN_COMPUTED:
            return "computed";
        case NL_ORIGIN_HOST:
            return "from the host's memory";
        case NL_ORIGIN_FILE:
            return kFromFile;
        case NL_ORIGIN_SERVER:
            return "from the server";
        default:
            return "there already";
    }
}

/* Prefills one text into a chunk and says how long it took. Returns 0, or 1 on an error. */
static int prefill(session_t *session, const char *name, const char *text, int32_t level, nl_chunk **chunk) {
    tokens_t tokens;
    const double start = now();
    int bad = encode(session->tokenizer, text, level == NL_LEVEL_SYSTEM ? NL_ENCODE_ADD_BOS : 0, &tokens) ||
              failed(nl_chunk_prefill(session->engine, tokens.ids, tokens.count, level, NULL, 0, chunk),
                     "prefilling a chunk");
    free(tokens.ids);
    if (bad) return 1;
    const char *origin = origin_of(*chunk);
    printf("  level %d  %-12s %5zu tokens  %7.1f ms  %s\n", (int)level, name, tokens.count, 1e3 * (now() - start),
           origin);
    fflush(stdout);
    if (strcmp(origin, kFromFile) == 0) ++session->num_from_files;
    return 0;
}

static int prefill_all(session_t *session, demo_t *demo) {
    printf("Prefilling %d chunks\n", demo->num_documents + 1);
    if (prefill(session, "system", demo->system, NL_LEVEL_SYSTEM, &session->system)) return 1;
    for (int i = 0; i < demo->num_documents; ++i) {
        char name[32];
        snprintf(name, sizeof name, "document %d", i + 1);
        if (prefill(session, name, demo->documents[i].text, NL_LEVEL_CONTEXT, &demo->documents[i].chunk)) return 1;
    }
    if (session->num_from_files == demo->num_documents + 1)
        printf("All of them came from files: the first question is answered without computing a document\n");
    else if (session->num_from_files > 0)
        printf("%d of them came from files\n", session->num_from_files);
    return 0;
}

static void close_session(session_t *session, demo_t *demo) {
    for (int i = 0; i < demo->num_documents; ++i) nl_chunk_free(demo->documents[i].chunk);
    nl_chunk_free(session->system);
    nl_tokenizer_free(session->tokenizer);
    nl_engine_free(session->engine);
    free(demo->file);
}

/* ---- Asking ------------------------------------------------------------------------------------- */

/* A context that begins with the system chunk and the question's documents, in the question's order. */
static int begin_conversation(session_t *session, const demo_t *demo, const question_t *question, nl_cache **cache) {
    const nl_chunk *chunks[kMaxDocuments + 1];
    size_t count = 0;
    chunks[count++] = session->system;
    for (int i = 0; i < question->num_documents; ++i) chunks[count++] = demo->documents[question->documents[i]].chunk;
    nl_options *options = NULL;
    int bad =
        failed(nl_options_create(NL_OPTIONS_CACHE, &options), "making options") ||
        failed(nl_options_set_int(options, NL_OPTION_COMPOSITION, question->composition), "choosing the composition") ||
        failed(nl_cache_create(session->engine, options, chunks, count, cache), "putting chunks together");
    nl_options_free(options);
    return bad;
}

static void print_text(question_t *question, size_t *said, const char *text, size_t length) {
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    if (*said + length >= sizeof question->said) length = sizeof question->said - 1 - *said;
    memcpy(question->said + *said, text, length);
    *said += length;
    question->said[*said] = '\0';
}

/* Starts an answer after `cache` and what the question adds to it. */
static int start_answer(nl_cache *cache, const tokens_t *added, nl_generation **generation) {
    nl_options *options = NULL;
    int bad = failed(nl_options_create(NL_OPTIONS_GENERATION, &options), "making options") ||
              failed(nl_options_set_int(options, NL_OPTION_MAX_TOKENS, kMaxAnswer), "limiting the answer") ||
              failed(nl_generation_start(cache, added->ids, added->count, options, generation), "starting the answer");
    nl_options_free(options);
    return bad;
}

/* Prints an answer's text as it comes, and keeps what it took. */
static int stream_answer(nl_generation *generation, question_t *question, double start) {
    char text[1024];
    size_t length = 0;
    size_t said = 0;
    int32_t end = NL_END_NONE;
    int64_t tokens_per_second = 0;
    question->first_token_ms = 0;
    while (end == NL_END_NONE) {
        if (failed(nl_generation_next(generation, -1, NULL, 0, NULL, text, sizeof text, &length, &end),
                   "waiting for the answer"))
            return 1;
        if (said == 0) question->first_token_ms = 1e3 * (now() - start);
        print_text(question, &said, text, length);
    }
    if (failed(nl_generation_query(generation, NL_GENERATION_TOKENS_PER_SECOND, &tokens_per_second),
               "asking for the speed"))
        return 1;
    question->tokens_per_second = (double)tokens_per_second;
    return 0;
}

/* The question without the model's markers. */
static void print_question(const question_t *question) {
    const char *text = question->text;
    size_t length = strlen(text);
    const size_t before = strlen(kBeforeQuestion);
    const size_t after = strlen(kAfterQuestion);
    if (strncmp(text, kBeforeQuestion, before) == 0) {
        text += before;
        length -= before;
    }
    if (length >= after && strcmp(text + length - after, kAfterQuestion) == 0) length -= after;
    printf("\n> ");
    for (int i = 0; i < question->num_documents; ++i)
        printf("%s%d", i > 0 ? ", " : "[documents ", question->documents[i] + 1);
    printf("%s%.*s\n ", question->num_documents > 0 ? "] " : "", (int)length, text);
}

/* Asks a question after `cache`, which becomes longer, and prints the answer and what it took. `start` is when the
 * question came in. */
static int ask(session_t *session, nl_cache *cache, question_t *question, double start) {
    tokens_t tokens;
    nl_generation *generation = NULL;
    print_question(question);
    int bad = encode(session->tokenizer, question->text, 0, &tokens) || start_answer(cache, &tokens, &generation) ||
              stream_answer(generation, question, start) ||
              failed(nl_cache_query(cache, NL_CACHE_TOKENS_REUSED, &question->reused), "counting tokens") ||
              failed(nl_cache_query(cache, NL_CACHE_TOKENS_COMPUTED, &question->computed), "counting tokens");
    nl_generation_free(generation);
    free(tokens.ids);
    if (bad) return 1;
    printf("\n  [first token %.1f ms, %lld tokens reused, %lld computed, %.0f tokens/s, %s]\n",
           question->first_token_ms, (long long)question->reused, (long long)question->computed,
           question->tokens_per_second, session->device);
    return 0;
}

/* The answer without the spaces around it. */
static const char *trimmed(char *text) {
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ') text[--length] = '\0';
    return text + strspn(text, " ");
}

/* Whether the answer is known with this composition: documents that were read alone can't know those before them. */
static int is_known(const question_t *question) {
    return !question->needs_exact || question->composition == NL_COMPOSE_EXACT;
}

static int ask_all(session_t *session, demo_t *demo) {
    int wrong = 0;
    for (int i = 0; i < demo->num_questions; ++i) {
        question_t *question = &demo->questions[i];
        const double start = now();
        nl_cache *cache = NULL;
        const int bad = begin_conversation(session, demo, question, &cache) || ask(session, cache, question, start);
        nl_cache_free(cache);
        if (bad) return 1;
        question->right = strcmp(trimmed(question->said), question->answer) == 0;
        wrong += !question->right && is_known(question);
    }
    printf("\n%-4s %-11s %9s %8s %10s %9s  %s\n", "", "composition", "documents", "reused", "first ms", "tokens/s",
           "answer");
    for (int i = 0; i < demo->num_questions; ++i) {
        question_t *question = &demo->questions[i];
        printf("%-4d %-11s %9d %8lld %10.1f %9.0f  %s%s%s\n", i + 1,
               question->composition == NL_COMPOSE_EXACT ? "exact" : "independent", question->num_documents,
               (long long)question->reused, question->first_token_ms, question->tokens_per_second,
               trimmed(question->said),
               question->right      ? ""
               : is_known(question) ? "  WRONG, expected "
                                    : "  composed exactly: ",
               question->right ? "" : question->answer);
    }
    if (wrong > 0) fprintf(stderr, "%d of %d answers are wrong\n", wrong, demo->num_questions);
    return wrong > 0;
}

/* Each question that is typed goes to a fork of one context with all documents, which shares their pages. */
static int chat(session_t *session, demo_t *demo, int32_t composition) {
    question_t question = {0};
    nl_cache *context = NULL;
    char line[kMaxText];
    char text[kMaxText + 64];
    int bad = 0;
    question.composition = composition;
    question.num_documents = demo->num_documents;
    for (int i = 0; i < demo->num_documents; ++i) question.documents[i] = i;
    bad = begin_conversation(session, demo, &question, &context);
    if (!bad) printf("\nAsk about the documents; an empty line ends.\n");
    while (!bad) {
        printf("? ");
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL || line[0] == '\n') break;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, sizeof text, "%s%s%s", kBeforeQuestion, line, kAfterQuestion);
        question.text = text;
        const double start = now();
        nl_cache *conversation = NULL;
        bad = failed(nl_cache_fork(context, &conversation), "beginning a conversation") ||
              ask(session, conversation, &question, start);
        nl_cache_free(conversation);
    }
    nl_cache_free(context);
    return bad;
}

int main(int argc, char **argv) {
    static demo_t demo; /* large, and must begin as zeros */
    options_t options = {NL_EXAMPLE_MODEL, NULL, "auto", NULL, NULL, NULL, NULL, 0};
    session_t session = {NULL, NULL, NULL, 0, ""};
    char demo_path[kMaxText];
    if (parse_options(argc, argv, &options)) return EXIT_FAILURE;
    snprintf(demo_path, sizeof demo_path, "%s/demo.txt", options.model);
    const int32_t chosen = options.composition != NULL && strcmp(options.composition, "exact") == 0
                               ? NL_COMPOSE_EXACT
                               : NL_COMPOSE_INDEPENDENT;

    int bad = read_demo(&demo, options.demo != NULL ? options.demo : demo_path) || open_session(&session, &options) ||
              prefill_all(&session, &demo);
    for (int i = 0; options.composition != NULL && i < demo.num_questions; ++i) demo.questions[i].composition = chosen;
    if (!bad) bad = options.chat ? chat(&session, &demo, chosen) : ask_all(&session, &demo);
    close_session(&session, &demo);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
