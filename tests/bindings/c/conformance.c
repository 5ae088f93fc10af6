/*
 * Runs ../conformance/scenarios.txt; its language is described beside it.
 *
 *   conformance SCENARIOS MODEL_FOLDER TEXT_FIXTURES FOLDER_OF_OTHER_MODELS
 *
 * Prints "scenario NAME ok" for each, and stops at the first that fails. What is read here is the project's own file,
 * so its form is trusted.
 */
#include <math.h>
#include <nanolith/nanolith.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxWords = 512, kMaxNames = 32, kMaxLine = 1 << 14, kMaxResult = 1 << 15, kMaxLogits = 1 << 13 };

typedef struct {
    char name[32];
    int32_t *tokens;
    size_t count;
    nl_chunk *chunk;
    nl_cache *cache;
    nl_generation *generation;
} named_t;

typedef struct {
    const char *model;
    const char *text;
    const char *work;
    nl_engine *engine;
    nl_tokenizer *tokenizer;
    nl_chat_format *format;
    named_t names[kMaxNames];
    size_t num_names;
    char result[kMaxResult]; /* words, each with a space before it */
    size_t length;
} state_t;

static void die(const char *what, const char *word) {
    fprintf(stderr, "%s: %s\n", what, word);
    exit(EXIT_FAILURE);
}

/* ---- Words ------------------------------------------------------------------------------------------------------ */

/* A word without its percent signs, in a buffer that the next call but three uses again. */
static const char *unquote(const char *word) {
    static char buffers[4][kMaxLine];
    static int next = 0;
    char *text = buffers[next++ % 4];
    size_t length = 0;
    for (const char *at = word; *at != '\0' && strcmp(word, "%") != 0; ++at) {
        unsigned byte = (unsigned char)*at;
        if (*at == '%') {
            sscanf(at + 1, "%2x", &byte);
            at += 2;
        }
        text[length++] = (char)byte;
    }
    text[length] = '\0';
    return text;
}

static const char *folder(const state_t *state, const char *word) {
    static char path[kMaxLine];
    word = unquote(word);
    if (strncmp(word, "@model", 6) == 0)
        snprintf(path, sizeof path, "%s%s", state->model, word + 6);
    else if (strncmp(word, "@text", 5) == 0)
        snprintf(path, sizeof path, "%s%s", state->text, word + 5);
    else if (strncmp(word, "@work", 5) == 0)
        snprintf(path, sizeof path, "%s%s", state->work, word + 5);
    else
        snprintf(path, sizeof path, "%s", word);
    return path;
}

static void give_text(state_t *state, const char *text, size_t length) {
    if (state->length + 3 * length + 3 > kMaxResult) die("too long", text);
    state->result[state->length++] = ' ';
    if (length == 0) state->result[state->length++] = '%';
    for (size_t i = 0; i < length; ++i) {
        const char byte = text[i];
        const int plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("<>|/_.,:-@~", byte) != NULL);
        state->length += (size_t)sprintf(state->result + state->length, plain ? "%c" : "%%%02X", (unsigned char)byte);
    }
    state->result[state->length] = '\0';
}

static void give_number(state_t *state, long long value) {
    char text[32];
    give_text(state, text, (size_t)snprintf(text, sizeof text, "%lld", value));
}

static void give_numbers(state_t *state, const int32_t *values, size_t count) {
    for (size_t i = 0; i < count; ++i) give_number(state, values[i]);
}

/* ---- Names ------------------------------------------------------------------------------------------------------ */

static named_t *find(state_t *state, const char *name) {
    static named_t none;
    if (strcmp(name, "null") == 0) return &none;
    for (size_t i = 0; i < state->num_names; ++i) {
        if (strcmp(state->names[i].name, name) == 0) return &state->names[i];
    }
    if (state->num_names == kMaxNames) die("too many names", name);
    snprintf(state->names[state->num_names].name, sizeof state->names[0].name, "%s", name);
    return &state->names[state->num_names++];
}

static void chunks_of(state_t *state, char **names, size_t count, const nl_chunk **chunks) {
    for (size_t i = 0; i < count; ++i) chunks[i] = find(state, names[i])->chunk;
}

static void clear(state_t *state) {
    nl_engine_free(state->engine);
    nl_chat_format_free(state->format);
    nl_tokenizer_free(state->tokenizer);
    for (size_t i = 0; i < state->num_names; ++i) {
        free(state->names[i].tokens);
        nl_chunk_free(state->names[i].chunk);
        nl_cache_free(state->names[i].cache);
        nl_generation_free(state->names[i].generation);
    }
    *state = (state_t){.model = state->model, .text = state->text, .work = state->work};
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

static nl_status set_engine_option(nl_options *options, const char *key, const char *value) {
    const long long number = atoll(value);
    if (strcmp(key, "device") == 0) return nl_options_set_text(options, NL_OPTION_DEVICE, value, strlen(value));
    if (strcmp(key, "dtype") == 0) return nl_options_set_int(options, NL_OPTION_DTYPE, number);
    if (strcmp(key, "page_size") == 0) return nl_options_set_int(options, NL_OPTION_PAGE_SIZE, number);
    if (strcmp(key, "num_pages") == 0) return nl_options_set_int(options, NL_OPTION_NUM_PAGES, number);
    if (strcmp(key, "max_context") == 0) return nl_options_set_int(options, NL_OPTION_MAX_CONTEXT, number);
    if (strcmp(key, "max_batch_tokens") == 0) return nl_options_set_int(options, NL_OPTION_MAX_BATCH_TOKENS, number);
    if (strcmp(key, "threads") == 0) return nl_options_set_int(options, NL_OPTION_THREADS, number);
    die("unknown option", key);
    return NL_OK;
}

static nl_status load(state_t *state, char **words, size_t count) {
    nl_options *options = NULL;
    nl_engine *engine = NULL;
    const char *path = "";
    nl_status status = nl_options_create(NL_OPTIONS_ENGINE, &options);
    for (size_t i = 0; i < count && status == NL_OK; ++i) {
        char *value = strchr(words[i], '=');
        *value++ = '\0';
        if (strcmp(words[i], "model") == 0)
            path = folder(state, value);
        else
            status = set_engine_option(options, words[i], value);
    }
    if (status == NL_OK) status = nl_engine_create(path, strlen(path), options, &engine);
    nl_options_free(options);
    if (status == NL_OK) {
        nl_engine_free(state->engine);
        state->engine = engine;
    }
    return status;
}

static nl_status set_sampling(nl_cache *cache, char **words, size_t count) {
    nl_options *options = NULL;
    nl_status status = nl_options_create(NL_OPTIONS_SAMPLING, &options);
    for (size_t i = 0; i < count && status == NL_OK; ++i) {
        char *value = strchr(words[i], '=');
        *value++ = '\0';
        const char *key = words[i];
        if (strcmp(key, "temperature") == 0)
            status = nl_options_set_float(options, NL_OPTION_TEMPERATURE, strtod(value, NULL));
        else if (strcmp(key, "top_k") == 0)
            status = nl_options_set_int(options, NL_OPTION_TOP_K, atoi(value));
        else if (strcmp(key, "top_p") == 0)
            status = nl_options_set_float(options, NL_OPTION_TOP_P, strtod(value, NULL));
        else if (strcmp(key, "min_p") == 0)
            status = nl_options_set_float(options, NL_OPTION_MIN_P, strtod(value, NULL));
        else if (strcmp(key, "seed") == 0)
            status = nl_options_set_int(options, NL_OPTION_SEED, (int64_t)strtoull(value, NULL, 10));
        else if (strcmp(key, "biased_token") == 0)
            status = nl_options_set_text(options, NL_OPTION_BIASED_TOKEN, value, strlen(value));
        else if (strcmp(key, "banned_token") == 0)
            status = nl_options_set_int(options, NL_OPTION_BANNED_TOKEN, atoi(value));
        else if (strcmp(key, "allowed_token") == 0)
            status = nl_options_set_int(options, NL_OPTION_ALLOWED_TOKEN, atoi(value));
        else
            die("unknown option", key);
    }
    if (status == NL_OK) status = nl_cache_set_sampling(cache, options);
    nl_options_free(options);
    return status;
}

static nl_status make_chunk(state_t *state, char **a, size_t count) {
    const nl_chunk *before[kMaxWords];
    const named_t *tokens = find(state, a[1]);
    chunks_of(state, a + 3, count - 3, before);
    return nl_chunk_prefill(state->engine, tokens->tokens, tokens->count, atoi(a[2]), before, count - 3,
                            &find(state, a[0])->chunk);
}

static nl_status make_cache(state_t *state, char **a, size_t count) {
    const nl_chunk *chunks[kMaxWords];
    nl_options *options = NULL;
    const int32_t composition = strcmp(a[1], "exact") == 0         ? NL_COMPOSE_EXACT
                                : strcmp(a[1], "independent") == 0 ? NL_COMPOSE_INDEPENDENT
                                                                   : atoi(a[1]);
    chunks_of(state, a + 2, count - 2, chunks);
    nl_status status = nl_options_create(NL_OPTIONS_CACHE, &options);
    if (status == NL_OK) status = nl_options_set_int(options, NL_OPTION_COMPOSITION, composition);
    if (status == NL_OK) status = nl_cache_create(state->engine, options, chunks, count - 2, &find(state, a[0])->cache);
    nl_options_free(options);
    return status;
}

static nl_status step(state_t *state, char **names, size_t count) {
    nl_cache *caches[kMaxWords] = {NULL};
    int32_t tokens[kMaxWords];
    for (size_t i = 0; i < count; ++i) caches[i] = find(state, names[i])->cache;
    const nl_status status = nl_decode_step(caches, count, tokens);
    if (status == NL_OK) give_numbers(state, tokens, count);
    return status;
}

static nl_status push_all(state_t *state, const int32_t *tokens, size_t count) {
    nl_text_stream *stream = NULL;
    char text[kMaxLine];
    size_t length = 0;
    nl_status status = nl_text_stream_create(state->tokenizer, &stream);
    for (size_t i = 0; i <= count && status == NL_OK; ++i) {
        status = i < count ? nl_text_stream_push(stream, tokens[i], text, sizeof text, &length)
                           : nl_text_stream_finish(stream, text, sizeof text, &length);
        if (status == NL_OK) give_text(state, text, length);
    }
    nl_text_stream_free(stream);
    return status;
}

/* ---- Generations ------------------------------------------------------------------------------------------------ */

/* Leaves one token that can be drawn: the user data is its number. */
static int32_t force(void *user_data, const int32_t *tokens, size_t num_tokens, float *logits, size_t num_logits) {
    const intptr_t token = (intptr_t)user_data;
    (void)tokens;
    if (num_tokens == 0 || token < 0 || (size_t)token >= num_logits) return 1;
    for (size_t i = 0; i < num_logits; ++i) logits[i] = -INFINITY;
    logits[token] = 0;
    return 0;
}

static nl_status set_generation_option(nl_options *options, const char *key, const char *value) {
    static const struct {
        const char *name;
        int32_t option;
    } kOptions[] = {
        {"max_tokens", NL_OPTION_MAX_TOKENS},
        {"min_tokens", NL_OPTION_MIN_TOKENS},
        {"stop_token", NL_OPTION_STOP_TOKEN},
        {"end_tokens", NL_OPTION_END_TOKENS},
        {"deadline_ms", NL_OPTION_DEADLINE_MS},
        {"priority", NL_OPTION_PRIORITY},
        {"text", NL_OPTION_TEXT},
        {"buffer_tokens", NL_OPTION_BUFFER_TOKENS},
        {"json_object", NL_OPTION_JSON_OBJECT},
    };
    static const struct {
        const char *name;
        int32_t option;
    } kTexts[] = {
        {"stop_text", NL_OPTION_STOP_TEXT},     {"choice", NL_OPTION_CHOICE},   {"regex", NL_OPTION_REGEX},
        {"json_schema", NL_OPTION_JSON_SCHEMA}, {"grammar", NL_OPTION_GRAMMAR},
    };
    if (strcmp(key, "force") == 0) return nl_options_set_logits(options, force, (void *)(intptr_t)atoll(value));
    for (size_t i = 0; i < sizeof kTexts / sizeof kTexts[0]; ++i) {
        if (strcmp(key, kTexts[i].name) != 0) continue;
        const char *text = unquote(value);
        return nl_options_set_text(options, kTexts[i].option, text, strlen(text));
    }
    for (size_t i = 0; i < sizeof kOptions / sizeof kOptions[0]; ++i) {
        if (strcmp(key, kOptions[i].name) == 0) return nl_options_set_int(options, kOptions[i].option, atoll(value));
    }
    die("unknown option", key);
    return NL_OK;
}

static nl_status start_generation(state_t *state, char **a, size_t count) {
    const named_t *tokens = find(state, a[2]);
    nl_options *options = NULL;
    nl_generation *generation = NULL;
    nl_status status = nl_options_create(NL_OPTIONS_GENERATION, &options);
    for (size_t i = 3; i < count && status == NL_OK; ++i) {
        char *value = strchr(a[i], '=');
        *value++ = '\0';
        status = set_generation_option(options, a[i], value);
    }
    if (status == NL_OK)
        status = nl_generation_start(find(state, a[1])->cache, tokens->tokens, tokens->count, options, &generation);
    nl_options_free(options);
    if (status != NL_OK) return status;
    named_t *named = find(state, a[0]);
    nl_generation_free(named->generation);
    named->generation = generation;
    return NL_OK;
}

static nl_status next_piece(nl_generation *generation, int64_t timeout_ms) {
    int32_t tokens[8];
    char text[64];
    size_t num_tokens = 0;
    size_t length = 0;
    int32_t end = NL_END_NONE;
    return nl_generation_next(generation, timeout_ms, tokens, 8, &num_tokens, text, sizeof text, &length, &end);
}

/* Why it ended, and the text and the tokens until then. */
static nl_status read_generation(state_t *state, nl_generation *generation) {
    static int32_t tokens[kMaxWords];
    static char text[kMaxLine];
    size_t num_tokens = 0;
    size_t length = 0;
    int32_t end = NL_END_NONE;
    while (end == NL_END_NONE) {
        size_t more_tokens = 0;
        size_t more_text = 0;
        if (num_tokens + 8 > kMaxWords || length + 8 > kMaxLine) die("too long", "read");
        const nl_status status = nl_generation_next(generation, -1, tokens + num_tokens, kMaxWords - num_tokens,
                                                    &more_tokens, text + length, kMaxLine - length, &more_text, &end);
        if (status != NL_OK) return status;
        num_tokens += more_tokens;
        length += more_text;
    }
    give_number(state, end);
    give_text(state, text, length);
    give_numbers(state, tokens, num_tokens);
    return NL_OK;
}

static nl_status cancel(state_t *state, const char *name) {
    if (strcmp(name, "engine") == 0) return nl_engine_cancel(state->engine);
    const named_t *named = find(state, name);
    return named->generation != NULL ? nl_generation_cancel(named->generation) : nl_cache_cancel(named->cache);
}

/* ---- More calls ------------------------------------------------------------------------------------------------- */

/* The numbers of this thread's latest error. */
static nl_status details(char **a) {
    for (int32_t detail = NL_DETAIL_INDEX; detail <= NL_DETAIL_AVAILABLE; ++detail) {
        int64_t value = 0;
        char word[32] = "-";
        if (nl_last_error_detail(detail, &value) == NL_OK) snprintf(word, sizeof word, "%lld", (long long)value);
        if (strcmp(word, a[detail - 1]) != 0) die("the error has another number", word);
    }
    return NL_OK;
}

static nl_status int_bounds(state_t *state, int32_t option) {
    int64_t values[3] = {0, 0, 0};
    const nl_status status = nl_option_bounds_int(option, &values[0], &values[1], &values[2]);
    for (int i = 0; i < 3 && status == NL_OK; ++i) give_number(state, values[i]);
    return status;
}

static nl_status best_logit(state_t *state, nl_cache *cache) {
    static float logits[kMaxLogits];
    size_t count = 0;
    size_t best = 0;
    const nl_status status = nl_cache_logits(cache, logits, kMaxLogits, &count);
    for (size_t i = 0; i < count && status == NL_OK; ++i) {
        if (logits[i] > logits[best]) best = i;
    }
    if (status == NL_OK) give_number(state, (long long)best);
    return status;
}

static nl_status score(state_t *state, nl_cache *cache, const named_t *tokens) {
    static float logprobs[kMaxWords];
    size_t count = 0;
    size_t scored = 0;
    const nl_status status = nl_cache_score(cache, tokens->tokens, tokens->count, logprobs, kMaxWords, &count);
    for (size_t i = 0; i < count && status == NL_OK; ++i) scored += logprobs[i] <= 0 ? 1 : 0;
    if (status == NL_OK) give_number(state, (long long)scored);
    return status;
}

static nl_status score_next(state_t *state, nl_cache *cache, const named_t *tokens, const named_t *candidates) {
    static float logprobs[kMaxWords];
    size_t count = 0;
    size_t best = 0;
    const nl_status status = nl_cache_score_next(cache, tokens->tokens, tokens->count, candidates->tokens,
                                                 candidates->count, logprobs, kMaxWords, &count);
    for (size_t i = 1; i < count && status == NL_OK; ++i) best = logprobs[i] > logprobs[best] ? i : best;
    if (status == NL_OK) give_number(state, (long long)best);
    return status;
}

static nl_status embed(state_t *state, nl_cache *cache, const named_t *tokens, int32_t pooling, uint32_t flags) {
    static float vectors[1 << 16];
    size_t count = 0;
    const nl_status status =
        nl_cache_embed(cache, tokens->tokens, tokens->count, pooling, flags, vectors, 1 << 16, &count);
    if (status == NL_OK) give_number(state, (long long)count);
    return status;
}

static nl_status all_tokens(state_t *state, const nl_cache *cache) {
    static int32_t tokens[kMaxWords];
    size_t count = 0;
    const nl_status status = nl_cache_tokens(cache, tokens, kMaxWords, &count);
    if (status == NL_OK) give_numbers(state, tokens, count);
    return status;
}

static void name_tokens(state_t *state, char **a, size_t count) {
    named_t *named = find(state, a[0]);
    named->tokens = malloc(count * sizeof *named->tokens);
    if (named->tokens == NULL) die("out of memory", a[0]);
    named->count = count - 1;
    for (size_t i = 1; i < count; ++i) named->tokens[i - 1] = atoi(a[i]);
}

static void free_named(state_t *state, const char *name) {
    named_t *named = find(state, name);
    if (strcmp(name, "engine") == 0) {
        nl_engine_free(state->engine);
        state->engine = NULL;
    }
    nl_chunk_free(named->chunk);
    nl_cache_free(named->cache);
    nl_generation_free(named->generation);
    named->chunk = NULL;
    named->cache = NULL;
    named->generation = NULL;
}

static nl_status tokenizer_call(state_t *state, const char *call, char **a) {
    static int32_t tokens[kMaxWords];
    static char text[kMaxLine];
    size_t count = 0;
    int32_t token = 0;
    nl_status status = NL_OK;
    if (strcmp(call, "tokenizer") == 0) {
        const char *path = folder(state, a[0]);
        nl_tokenizer *tokenizer = NULL;
        status = strcmp(path, "engine") == 0 ? nl_engine_tokenizer(state->engine, &tokenizer)
                                             : nl_tokenizer_load(path, strlen(path), &tokenizer);
        if (status == NL_OK) {
            nl_tokenizer_free(state->tokenizer);
            state->tokenizer = tokenizer;
        }
    } else if (strcmp(call, "encode") == 0) {
        const char *words = unquote(a[0]);
        status = nl_tokenizer_encode(state->tokenizer, words, strlen(words), (uint32_t)atoi(a[1]), tokens, kMaxWords,
                                     &count);
        if (status == NL_OK) give_numbers(state, tokens, count);
    } else if (strcmp(call, "find") == 0) {
        const char *piece = unquote(a[0]);
        status = nl_tokenizer_find(state->tokenizer, piece, strlen(piece), &token);
        if (status == NL_OK) give_number(state, token);
    } else {
        const named_t *named = strcmp(call, "decode") == 0 ? find(state, a[0]) : NULL;
        status = named != NULL
                     ? nl_tokenizer_decode(state->tokenizer, named->tokens, named->count, text, sizeof text, &count)
                     : nl_tokenizer_piece(state->tokenizer, atoi(a[0]), text, sizeof text, &count);
        if (status == NL_OK) give_text(state, text, count);
    }
    return status;
}

/* The value in the line "NAME: VALUE"; nothing where there is no such line. */
static nl_status describe(state_t *state, const char *path, const char *name) {
    static char text[kMaxLine];
    size_t length = 0;
    const nl_status status = nl_model_describe(path, strlen(path), NL_DESCRIBE_TEXT, text, sizeof text - 1, &length);
    if (status != NL_OK) return status;
    text[length] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *colon = strstr(line, ": ");
        if (colon == NULL || strlen(name) != (size_t)(colon - line) || strncmp(line, name, strlen(name)) != 0) continue;
        give_text(state, colon + 2, strlen(colon + 2));
    }
    return status;
}

static nl_status make_format(state_t *state, const char *word) {
    const char *name = unquote(word);
    nl_chat_format *format = NULL;
    const nl_status status = nl_chat_format_create(state->tokenizer, name, strlen(name), &format);
    if (status == NL_OK) {
        nl_chat_format_free(state->format);
        state->format = format;
    }
    return status;
}

/* `a` has the flags, and a role and a content for each message. */
static nl_status render(state_t *state, char **a, size_t count, int gives_ends) {
    static char texts[kMaxLine];
    static int32_t tokens[kMaxWords];
    int32_t roles[kMaxNames];
    const char *contents[kMaxNames];
    size_t lengths[kMaxNames];
    size_t ends[kMaxNames];
    const size_t num_messages = (count - 1) / 2;
    char *at = texts;
    if (num_messages > kMaxNames) die("too many messages", a[0]);
    for (size_t i = 0; i < num_messages; ++i) {
        const char *text = unquote(a[2 * i + 2]);
        roles[i] = atoi(a[2 * i + 1]);
        lengths[i] = strlen(text);
        contents[i] = memcpy(at, text, lengths[i]); /* together they are no longer than the line */
        at += lengths[i];
    }
    const nl_status status = nl_chat_format_render(state->format, roles, contents, lengths, num_messages,
                                                   (uint32_t)atoi(a[0]), ends, tokens, kMaxWords, &count);
    if (status != NL_OK) return status;
    if (!gives_ends) give_numbers(state, tokens, count);
    for (size_t i = 0; i < num_messages && gives_ends; ++i) give_number(state, (long long)ends[i]);
    return status;
}

/* Renders a chat that is a JSON object. `a` has the flags, the number of messages and the object. */
static nl_status render_json(state_t *state, char **a, int gives_ends) {
    static int32_t tokens[kMaxWords];
    size_t ends[kMaxNames];
    const size_t num_ends = (size_t)atoi(a[1]);
    if (num_ends > kMaxNames) die("too many messages", a[1]);
    const char *request = unquote(a[2]);
    size_t count = 0;
    const nl_status status = nl_chat_format_render_json(state->format, request, strlen(request), (uint32_t)atoi(a[0]),
                                                        ends, num_ends, tokens, kMaxWords, &count);
    if (status != NL_OK) return status;
    if (!gives_ends) give_numbers(state, tokens, count);
    for (size_t i = 0; i < num_ends && gives_ends; ++i) give_number(state, (long long)ends[i]);
    return status;
}

static nl_status format_name(state_t *state) {
    char name[64];
    size_t length = 0;
    const nl_status status = nl_chat_format_name(state->format, name, sizeof name, &length);
    if (status == NL_OK) give_text(state, name, length);
    return status;
}

static nl_status query(state_t *state, const char *call, char **a) {
    int64_t value = 0;
    nl_status status = NL_OK;
    if (strcmp(call, "engine_fact") == 0) status = nl_engine_query(state->engine, atoi(a[0]), &value);
    if (strcmp(call, "tokenizer_fact") == 0) status = nl_tokenizer_query(state->tokenizer, atoi(a[0]), &value);
    if (strcmp(call, "chunk_fact") == 0) status = nl_chunk_query(find(state, a[0])->chunk, atoi(a[1]), &value);
    if (strcmp(call, "cache_fact") == 0) status = nl_cache_query(find(state, a[0])->cache, atoi(a[1]), &value);
    if (strcmp(call, "generation_fact") == 0)
        status = nl_generation_query(find(state, a[0])->generation, atoi(a[1]), &value);
    if (status == NL_OK) give_number(state, value);
    return status;
}

/* Puts the tenant's handle in the place of the engine's. */
static nl_status become_tenant(state_t *state, const char *word) {
    const char *salt = unquote(word);
    nl_engine *tenant = NULL;
    const nl_status status = nl_engine_tenant(state->engine, salt, strlen(salt), &tenant);
    if (status != NL_OK) return status;
    nl_engine_free(state->engine);
    state->engine = tenant;
    return NL_OK;
}

static nl_status engine_call(state_t *state, const char *call, char **a) {
    char text[256];
    size_t length = 0;
    int32_t is_end = 0;
    nl_status status = NL_OK;
    if (strcmp(call, "device") == 0) {
        status = nl_engine_device(state->engine, text, sizeof text, &length);
        if (status == NL_OK) give_text(state, text, length);
    } else {
        status = nl_engine_is_end_token(state->engine, atoi(a[0]), &is_end);
        if (status == NL_OK) give_number(state, is_end);
    }
    return status;
}

/* Does one line; `wanted` is the number of words that its result should have. */
static nl_status execute(state_t *state, char **words, size_t num_words, size_t wanted) {
    const char *call = words[0];
    char **a = words + 1;
    const size_t count = num_words - 1;
    nl_status status = NL_OK;
    if (strcmp(call, "engine") == 0) return load(state, a, count);
    if (strstr(call, "_fact") != NULL) return query(state, call, a);
    if (strcmp(call, "device") == 0 || strcmp(call, "end_token") == 0) return engine_call(state, call, a);
    if (strcmp(call, "chunk") == 0) return make_chunk(state, a, count);
    if (strcmp(call, "tenant") == 0) return become_tenant(state, a[0]);
    if (strcmp(call, "priority") == 0) return nl_chunk_set_priority(find(state, a[0])->chunk, atoi(a[1]));
    if (strcmp(call, "retain") == 0) return nl_chunk_retain(find(state, a[1])->chunk, &find(state, a[0])->chunk);
    if (strcmp(call, "cache") == 0) return make_cache(state, a, count);
    if (strcmp(call, "fork") == 0) return nl_cache_fork(find(state, a[1])->cache, &find(state, a[0])->cache);
    if (strcmp(call, "sampling") == 0) return set_sampling(find(state, a[0])->cache, a + 1, count - 1);
    if (strcmp(call, "truncate") == 0) return nl_cache_truncate(find(state, a[0])->cache, (size_t)atoll(a[1]));
    if (strcmp(call, "step") == 0) return step(state, a, count);
    if (strcmp(call, "generation") == 0) return start_generation(state, a, count);
    if (strcmp(call, "next") == 0) return next_piece(find(state, a[0])->generation, atoll(a[1]));
    if (strcmp(call, "read") == 0) return read_generation(state, find(state, a[0])->generation);
    if (strcmp(call, "cancel") == 0) return cancel(state, a[0]);
    if (strcmp(call, "details") == 0) return details(a);
    if (strcmp(call, "int_bounds") == 0) return int_bounds(state, atoi(a[0]));
    if (strcmp(call, "score") == 0) return score(state, find(state, a[0])->cache, find(state, a[1]));
    if (strcmp(call, "score_next") == 0)
        return score_next(state, find(state, a[0])->cache, find(state, a[1]), find(state, a[2]));
    if (strcmp(call, "embed") == 0)
        return embed(state, find(state, a[0])->cache, find(state, a[1]), atoi(a[2]), (uint32_t)atoi(a[3]));
    if (strcmp(call, "argmax") == 0) return best_logit(state, find(state, a[0])->cache);
    if (strcmp(call, "all_tokens") == 0) return all_tokens(state, find(state, a[0])->cache);
    if (strcmp(call, "describe") == 0) return describe(state, folder(state, a[0]), unquote(a[1]));
    if (strcmp(call, "format") == 0) return make_format(state, a[0]);
    if (strcmp(call, "format_name") == 0) return format_name(state);
    if (strcmp(call, "render") == 0) return render(state, a, count, 0);
    if (strcmp(call, "ends") == 0) return render(state, a, count, 1);
    if (strcmp(call, "render_json") == 0) return render_json(state, a, 0);
    if (strcmp(call, "ends_json") == 0) return render_json(state, a, 1);
    if (strcmp(call, "tokens") == 0) {
        name_tokens(state, a, count);
    } else if (strcmp(call, "free") == 0) {
        free_named(state, a[0]);
    } else if (strcmp(call, "extend") == 0) {
        const named_t *tokens = find(state, a[1]);
        status = nl_cache_extend(find(state, a[0])->cache, tokens->tokens, tokens->count);
    } else if (strcmp(call, "stream") == 0) {
        const named_t *tokens = find(state, a[0]);
        status = push_all(state, tokens->tokens, tokens->count);
    } else if (strcmp(call, "generate") == 0) {
        while (wanted-- > 0 && status == NL_OK) status = step(state, a, 1);
    } else if (strstr("tokenizer encode decode piece find", call) != NULL) {
        status = tokenizer_call(state, call, a);
    } else {
        die("unknown operation", call);
    }
    return status;
}

/* ---- Scenarios -------------------------------------------------------------------------------------------------- */

static size_t split(char *line, char **words) {
    size_t count = 0;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        if (count == kMaxWords) die("too many words", word);
        words[count++] = word;
    }
    return count;
}

/* Whether the line does what it says; if not, it has said why. */
static int run(state_t *state, char *line) {
    char *words[kMaxWords];
    char *equals = strstr(line, " =");
    char expected[kMaxLine] = "";
    size_t wanted = 0;
    if (equals != NULL) {
        snprintf(expected, sizeof expected, "%s", equals + 2);
        *equals = '\0';
        for (const char *at = expected; *at != '\0'; ++at) wanted += *at == ' ';
    }
    const size_t count = split(line, words);
    const int is_error = strcmp(words[0], "error") == 0;
    const size_t first = is_error ? 3 : 0;
    state->length = 0;
    state->result[0] = '\0';
    const nl_status status = execute(state, words + first, count - first, wanted);
    if (is_error) {
        if (strcmp(nl_status_name(status), words[1]) == 0 && strstr(nl_last_error(), words[2]) != NULL) return 1;
        fprintf(stderr, "%s: %s\n", nl_status_name(status), nl_last_error());
        return 0;
    }
    if (status != NL_OK) return fprintf(stderr, "%s: %s\n", nl_status_name(status), nl_last_error()), 0;
    if (equals == NULL || strcmp(state->result, expected) == 0) return 1;
    fprintf(stderr, "gave%s, expected%s\n", state->result, expected);
    return 0;
}

int main(int argc, char **argv) {
    static state_t state; /* large, and must begin as zeros */
    static char line[kMaxLine];
    static char shown[kMaxLine];
    char name[64] = "";
    FILE *file = argc == 5 ? fopen(argv[1], "r") : NULL;
    if (file == NULL)
        return fprintf(stderr, "conformance SCENARIOS MODEL_FOLDER TEXT_FIXTURES WORK_FOLDER\n"), EXIT_FAILURE;
    state.model = argv[2];
    state.text = argv[3];
    state.work = argv[4];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#') continue;
        if (strncmp(line, "scenario ", 9) == 0) {
            if (name[0] != '\0') printf("scenario %s ok\n", name);
            snprintf(name, sizeof name, "%.63s", line + 9);
            clear(&state);
            continue;
        }
        memcpy(shown, line, sizeof shown);
        if (!run(&state, line)) return fprintf(stderr, "scenario %s FAILED: %s\n", name, shown), EXIT_FAILURE;
    }
    printf("scenario %s ok\n", name);
    clear(&state);
    fclose(file);
    return EXIT_SUCCESS;
}
