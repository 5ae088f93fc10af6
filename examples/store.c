/*
 * store: looks at a store of chunks, and fills one before anybody asks.
 *
 *   store show MODEL FOLDER          what an engine finds in FOLDER, as a table with bars
 *   store warm MODEL FOLDER TEXTS    computes a chunk of each text file in the folder TEXTS, kept in FOLDER
 *   --device auto|cpu|cuda           where to compute (default auto)
 *   --server ADDRESS                 a Redis or Valkey server (redis://HOST) that keeps chunks too, for other machines
 *   --json                           print nl_engine_describe instead of the table
 *
 * An engine with the same model and NL_OPTION_STORE_FOLDER then has these chunks without computing them. A chunk is
 * found again only for exactly the same token ids, so your program must encode the texts in the way that this one does.
 * Plain C11 and POSIX against nanolith.h: copy from here.
 *
 *   cc -std=c11 store.c $(pkg-config --cflags --libs nanolith) -o store
 */
#define _POSIX_C_SOURCE 200809L /* opendir, stat, clock_gettime, isatty */
#include <dirent.h>
#include <errno.h>
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kMostHeld = 64, kMostName = 40, kLeastWidth = 60, kMostWidth = 400, kTableWidth = 57 };

/* ---- Errors: one helper for all ---------------------------------------------------------------- */

/* Says what went wrong and returns 1 when a call failed; returns 0 when it did not. */
static int failed(nl_status status, const char *doing) {
    if (status == NL_OK) return 0;
    fflush(stdout);
    fprintf(stderr, "%s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    return 1;
}

static int system_failed(const char *doing) {
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", doing, strerror(errno));
    return 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- The table ---------------------------------------------------------------------------------- */

/* Columns of the terminal: the shell's COLUMNS, or 80. */
static int width(void) {
    const char *columns = getenv("COLUMNS");
    const long number = columns != NULL ? strtol(columns, NULL, 10) : 0;
    if (number <= 0) return 80;
    if (number < kLeastWidth) return kLeastWidth;
    return number > kMostWidth ? kMostWidth : (int)number;
}

static void print_bar(int cells, double share) {
    const int full = (int)(share * cells + 0.5);
    putchar('[');
    for (int i = 0; i < cells; ++i) putchar(i < full ? '#' : '.');
    putchar(']');
}

static const char *const kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};

/* "17.3 MiB", in a buffer of 16. */
static const char *in_words(int64_t bytes, char *text) {
    double number = (double)bytes;
    int unit = 0;
    while (number >= 1000 && unit < 4) {
        number /= 1024;
        ++unit;
    }
    snprintf(text, 16, unit == 0 ? "%.0f %s" : "%.1f %s", number, kUnits[unit]);
    return text;
}

/* One tier: the facts that tell its numbers. What a server holds in all, an engine does not know. */
typedef struct {
    const char *name;
    int32_t chunks, bytes; /* 0: not known */
    int32_t hits, moves;
} tier_t;

static const tier_t kTiers[] = {
    {"device", NL_ENGINE_CHUNKS, NL_ENGINE_CHUNK_BYTES, NL_ENGINE_HITS, NL_ENGINE_DEVICE_MOVES},
    {"host", NL_ENGINE_HOST_CHUNKS, NL_ENGINE_HOST_BYTES, NL_ENGINE_HOST_HITS, NL_ENGINE_HOST_MOVES},
    {"files", NL_ENGINE_FILE_CHUNKS, NL_ENGINE_FILE_BYTES, NL_ENGINE_FILE_HITS, NL_ENGINE_FILE_MOVES},
    {"server", 0, 0, NL_ENGINE_SERVER_HITS, NL_ENGINE_SERVER_MOVES},
};
enum { kNumTiers = sizeof kTiers / sizeof *kTiers };

/* Returns 0, or 1 on an error. */
static int ask(const nl_engine *engine, int32_t fact, int64_t *value) {
    return failed(nl_engine_query(engine, fact, value), "asking for a number");
}

/* One line of the table; the bar is the tier's share of `all` bytes. */
static int print_tier(const nl_engine *engine, const tier_t *tier, int64_t all) {
    int64_t chunks = 0;
    int64_t bytes = 0;
    int64_t hits = 0;
    int64_t moves = 0;
    char words[16];
    if (ask(engine, tier->hits, &hits) || ask(engine, tier->moves, &moves)) return 1;
    if (tier->chunks == 0) {
        printf("%-8s %9s %11s %8lld %8lld\n", tier->name, "-", "-", (long long)hits, (long long)moves);
        return 0;
    }
    if (ask(engine, tier->chunks, &chunks) || ask(engine, tier->bytes, &bytes)) return 1;
    const double share = all > 0 ? (double)bytes / (double)all : 0;
    printf("%-8s %9lld %11s %8lld %8lld  ", tier->name, (long long)chunks, in_words(bytes, words), (long long)hits,
           (long long)moves);
    print_bar(width() - kTableWidth, share);
    printf(" %3.0f%%\n", 100 * share);
    return 0;
}

static int print_table(const nl_engine *engine, int has_server) {
    int64_t all = 0;
    for (int i = 0; i < kNumTiers; ++i) {
        int64_t bytes = 0;
        if (kTiers[i].bytes != 0 && ask(engine, kTiers[i].bytes, &bytes)) return 1;
        all += bytes;
    }
    printf("%-8s %9s %11s %8s %8s  share of bytes\n", "tier", "chunks", "bytes", "hits", "moves");
    for (int i = 0; i < kNumTiers; ++i) {
        if (kTiers[i].bytes == 0 && !has_server) continue;
        if (print_tier(engine, &kTiers[i], all)) return 1;
    }
    int64_t misses = 0;
    int64_t reused = 0;
    int64_t computed = 0;
    int64_t saved = 0;
    if (ask(engine, NL_ENGINE_MISSES, &misses) || ask(engine, NL_ENGINE_TOKENS_REUSED, &reused) ||
        ask(engine, NL_ENGINE_TOKENS_COMPUTED, &computed) || ask(engine, NL_ENGINE_SAVED_MS, &saved))
        return 1;
    printf("%lld misses, %lld tokens reused, %lld computed, %lld ms saved\n", (long long)misses, (long long)reused,
           (long long)computed, (long long)saved);
    return 0;
}

static int print_json(const nl_engine *engine) {
    char text[8192];
    size_t length = 0;
    if (failed(nl_engine_describe(engine, text, sizeof text, &length), "describing the engine")) return 1;
    printf("%.*s\n", (int)length, text);
    return 0;
}

/* ---- Text files --------------------------------------------------------------------------------- */

typedef struct {
    char *path;
    int64_t bytes;
} text_file_t;

typedef struct {
    text_file_t *files;
    size_t count;
    int64_t bytes; /* of all */
} text_files_t;

static void free_files(text_files_t *texts) {
    for (size_t i = 0; i < texts->count; ++i) free(texts->files[i].path);
    free(texts->files);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const text_file_t *)a)->path, ((const text_file_t *)b)->path);
}

/* Adds a file; folders, empty files and the like are left out. Returns 0, or 1 on an error. */
static int add_file(text_files_t *texts, const char *folder, const char *name) {
    struct stat facts;
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *const path = malloc(size);
    if (path == NULL) return system_failed("listing texts");
    snprintf(path, size, "%s/%s", folder, name);
    if (stat(path, &facts) != 0) {
        const int bad = system_failed(path);
        free(path);
        return bad;
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
        free(path);
        return 0;
    }
    text_file_t *const files = realloc(texts->files, (texts->count + 1) * sizeof *files);
    if (files == NULL) {
        free(path);
        return system_failed("listing texts");
    }
    texts->files = files;
    texts->files[texts->count].path = path;
    texts->files[texts->count++].bytes = (int64_t)facts.st_size;
    texts->bytes += (int64_t)facts.st_size;
    return 0;
}

/* The files of a folder by name; names that begin with a dot are left out. Returns 0, or 1 on an error. */
static int list_files(text_files_t *texts, const char *folder) {
    DIR *const open = opendir(folder);
    if (open == NULL) return system_failed(folder);
    int bad = 0;
    while (!bad) {
        errno = 0;
        const struct dirent *const entry = readdir(open);
        if (entry == NULL) {
            if (errno != 0) bad = system_failed(folder);
            break;
        }
        if (entry->d_name[0] != '.') bad = add_file(texts, folder, entry->d_name);
    }
    closedir(open);
    if (!bad && texts->count == 0) {
        fprintf(stderr, "%s has no text files\n", folder);
        bad = 1;
    }
    if (!bad) qsort(texts->files, texts->count, sizeof *texts->files, by_path);
    return bad;
}

/* The file's text, freed by the caller, or NULL after saying what is wrong. */
static char *read_text(const text_file_t *file, size_t *length) {
    FILE *const stream = fopen(file->path, "rb");
    char *text = NULL;
    int bad = stream == NULL;
    if (!bad) text = malloc((size_t)file->bytes);
    if (text != NULL) *length = fread(text, 1, (size_t)file->bytes, stream);
    bad = text == NULL || ferror(stream);
    if (bad) system_failed(file->path);
    if (stream != NULL) fclose(stream);
    if (!bad) return text;
    free(text);
    return NULL;
}

/* ---- Warming ------------------------------------------------------------------------------------ */

typedef struct {
    nl_engine *engine;
    nl_tokenizer *tokenizer;
    size_t page_size;
    size_t most_tokens; /* of a chunk */
    size_t most_held;   /* pages of the chunks that are held */
    /* A chunk that is evicted before it is written to its file is lost: the newest ones are held meanwhile. */
    nl_chunk *held[kMostHeld];
    size_t held_pages[kMostHeld];
    size_t first_held;
    size_t num_held;
    size_t all_held;
    /* what was done */
    double started;
    size_t done;
    int64_t done_bytes;
    int64_t tokens;
    int64_t computed; /* chunks */
    int64_t found;
} warming_t;

static void let_go_of_oldest(warming_t *warming) {
    nl_chunk_free(warming->held[warming->first_held]);
    warming->all_held -= warming->held_pages[warming->first_held];
    warming->first_held = (warming->first_held + 1) % kMostHeld;
    --warming->num_held;
}

static void hold(warming_t *warming, nl_chunk *chunk, size_t pages) {
    const size_t at = (warming->first_held + warming->num_held) % kMostHeld;
    warming->held[at] = chunk;
    warming->held_pages[at] = pages;
    warming->all_held += pages;
    ++warming->num_held;
}

/* Prefills tokens as chunks of as many as fit. Returns 0, or 1 on an error. */
static int prefill(warming_t *warming, const int32_t *tokens, size_t count) {
    for (size_t at = 0; at < count;) {
        const size_t some = count - at < warming->most_tokens ? count - at : warming->most_tokens;
        const size_t pages = (some + warming->page_size - 1) / warming->page_size;
        nl_chunk *chunk = NULL;
        int64_t origin = NL_ORIGIN_COMPUTED;
        while (warming->num_held == kMostHeld ||
               (warming->num_held > 0 && warming->all_held + pages > warming->most_held))
            let_go_of_oldest(warming);
        if (failed(nl_chunk_prefill(warming->engine, tokens + at, some, NL_LEVEL_CONTEXT, NULL, 0, &chunk),
                   "prefilling a chunk"))
            return 1;
        hold(warming, chunk, pages);
        if (failed(nl_chunk_query(chunk, NL_CHUNK_ORIGIN, &origin), "asking for the chunk's origin")) return 1;
        ++*(origin == NL_ORIGIN_COMPUTED ? &warming->computed : &warming->found);
        at += some;
    }
    warming->tokens += (int64_t)count;
    return 0;
}

static int warm_file(warming_t *warming, const text_file_t *file) {
    size_t length = 0;
    size_t count = 0;
    int32_t *tokens = NULL;
    char *const text = read_text(file, &length);
    if (text == NULL) return 1;
    /* The first call tells how much room the second one needs. */
    nl_status status = nl_tokenizer_encode(warming->tokenizer, text, length, NL_ENCODE_PARALLEL, NULL, 0, &count);
    if (status == NL_ERROR_BUFFER_TOO_SMALL) {
        tokens = malloc(count * sizeof *tokens);
        if (tokens != NULL)
            status = nl_tokenizer_encode(warming->tokenizer, text, length, NL_ENCODE_PARALLEL, tokens, count, &count);
        else
            status = NL_OK;
    }
    int bad = failed(status, file->path);
    if (!bad && count > 0) bad = tokens == NULL ? system_failed(file->path) : prefill(warming, tokens, count);
    free(tokens);
    free(text);
    return bad;
}

/* One line that is written over on a terminal, or a line for each file. */
static void print_progress(const warming_t *warming, const text_files_t *texts, const char *path, int is_terminal) {
    const double passed = now() - warming->started;
    const double share = (double)warming->done_bytes / (double)texts->bytes;
    const double left = share > 0 ? passed / share - passed : 0;
    const double rate = passed > 0 ? (double)warming->tokens / passed : 0;
    if (is_terminal) {
        putchar('\r');
        print_bar(width() - 58, share);
        printf(" %zu of %zu  %.0f tokens/s  %d:%02d left \033[K", warming->done, texts->count, rate, (int)left / 60,
               (int)left % 60);
    } else {
        const char *const name = strrchr(path, '/') + 1;
        printf("%zu of %zu  %-*.*s  %.0f tokens/s  %d:%02d left\n", warming->done, texts->count, kMostName, kMostName,
               name, rate, (int)left / 60, (int)left % 60);
    }
    fflush(stdout);
}

/* Waits until the chunks that were computed are written to files, and sent to the server where there is one, or nothing
   has been for some seconds. */
static int wait_for_store(const warming_t *warming, int has_server, int64_t *written) {
    const struct timespec pause = {0, 20000000};
    double changed = now();
    int64_t before = -1;
    while (1) {
        int64_t sent = 0;
        if (ask(warming->engine, NL_ENGINE_FILE_MOVES, written) || ask(warming->engine, NL_ENGINE_SERVER_MOVES, &sent))
            return 1;
        const int done = *written >= warming->computed && (!has_server || sent >= warming->computed);
        if (done || now() - changed > 5) return 0;
        if (*written + sent != before) changed = now();
        before = *written + sent;
        nanosleep(&pause, NULL);
    }
}

static int warm(nl_engine *engine, const char *folder, int has_server) {
    warming_t warming = {.engine = engine};
    text_files_t texts = {0};
    int64_t most_context = 0;
    int64_t pages = 0;
    int64_t page_size = 0;
    int64_t written = 0;
    const int is_terminal = isatty(STDOUT_FILENO);
    int bad = list_files(&texts, folder) || failed(nl_engine_tokenizer(engine, &warming.tokenizer), "the tokenizer") ||
              ask(engine, NL_ENGINE_MAX_CONTEXT, &most_context) || ask(engine, NL_ENGINE_PAGES_TOTAL, &pages) ||
              ask(engine, NL_ENGINE_PAGE_SIZE, &page_size);
    if (!bad) {
        const int64_t room = pages * page_size;
        warming.most_tokens = (size_t)(room < most_context ? room : most_context);
        warming.page_size = (size_t)page_size;
        warming.most_held = (size_t)pages / 2;
        warming.started = now();
    }
    for (size_t i = 0; i < texts.count && !bad; ++i) {
        bad = warm_file(&warming, &texts.files[i]);
        ++warming.done;
        warming.done_bytes += texts.files[i].bytes;
        if (!bad) print_progress(&warming, &texts, texts.files[i].path, is_terminal);
    }
    if (is_terminal && warming.done > 0) putchar('\n');
    if (!bad) bad = wait_for_store(&warming, has_server, &written);
    if (!bad)
        printf("%lld chunks computed, %lld of them written; %lld were there already\n", (long long)warming.computed,
               (long long)written, (long long)warming.found);
    while (warming.num_held > 0) let_go_of_oldest(&warming);
    nl_tokenizer_free(warming.tokenizer);
    free_files(&texts);
    return bad;
}

/* ---- The program -------------------------------------------------------------------------------- */

typedef struct {
    const char *device;
    const char *server; /* NULL: none */
    int json;
    const char *words[4]; /* what is no option: the command, MODEL, FOLDER, TEXTS */
    int num_words;
} arguments_t;

static int usage(FILE *out) {
    fprintf(out,
            "usage: store show MODEL FOLDER [options]          what an engine finds in FOLDER\n"
            "       store warm MODEL FOLDER TEXTS [options]    keep a chunk of each text file of TEXTS in FOLDER\n"
            "  --device auto|cpu|cuda    where to compute (default auto)\n"
            "  --server ADDRESS          a Redis or Valkey server (redis://HOST) that keeps chunks too\n"
            "  --json                    all numbers as JSON instead of a table\n");
    return 1;
}

/* Returns 0, or 1 where an argument is wrong. */
static int parse_arguments(int argc, char **argv, arguments_t *arguments) {
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--json") == 0) {
            arguments->json = 1;
        } else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
            arguments->device = argv[++i];
        } else if (strcmp(argv[i], "--server") == 0 && i + 1 < argc) {
            arguments->server = argv[++i];
        } else if (argv[i][0] == '-' || arguments->num_words == 4) {
            fprintf(stderr, "%s is not understood\n", argv[i]);
            return usage(stderr);
        } else {
            arguments->words[arguments->num_words++] = argv[i];
        }
    }
    const char *const command = arguments->num_words > 0 ? arguments->words[0] : "";
    if (strcmp(command, "show") == 0 && arguments->num_words == 3) return 0;
    if (strcmp(command, "warm") == 0 && arguments->num_words == 4) return 0;
    return usage(stderr);
}

static int open_engine(const arguments_t *arguments, nl_engine **engine) {
    const char *const model = arguments->words[1];
    const char *const folder = arguments->words[2];
    nl_options *options = NULL;
    const int bad =
        failed(nl_options_create(NL_OPTIONS_ENGINE, &options), "making options") ||
        failed(nl_options_set_text(options, NL_OPTION_DEVICE, arguments->device, strlen(arguments->device)),
               "choosing the device") ||
        failed(nl_options_set_text(options, NL_OPTION_STORE_FOLDER, folder, strlen(folder)), "choosing the folder") ||
        (arguments->server != NULL &&
         failed(nl_options_set_text(options, NL_OPTION_STORE_SERVER, arguments->server, strlen(arguments->server)),
                "choosing the server")) ||
        failed(nl_engine_create(model, strlen(model), options, engine), "loading the model");
    nl_options_free(options);
    return bad;
}

int main(int argc, char **argv) {
    arguments_t arguments = {.device = "auto"};
    nl_engine *engine = NULL;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return EXIT_SUCCESS;
    }
    if (parse_arguments(argc, argv, &arguments)) return EXIT_FAILURE;
    const char *const texts = arguments.words[3];
    int bad = open_engine(&arguments, &engine) || (texts != NULL && warm(engine, texts, arguments.server != NULL));
    if (!bad) bad = arguments.json ? print_json(engine) : print_table(engine, arguments.server != NULL);
    nl_engine_free(engine); /* waits until all chunks are written */
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
