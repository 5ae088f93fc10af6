/*
 * chat_messages: a chat as a list of messages, split into chunks along them.
 *
 * The system prompt and each document are messages of their own. The chat format that the model folder names turns all
 * of them into tokens and tells where each message's part ends. Parts that come again (the system prompt, the
 * documents) are prefilled into chunks, which the next chat finds in the store; the rest is computed for this chat
 * alone. Plain C99 against nanolith.h: copy from here.
 *
 *   chat_messages [MODEL [FORMAT]]      the formats are listed at nl_chat_format_create
 */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NL_EXAMPLE_MODEL
#define NL_EXAMPLE_MODEL "examples/model"
#endif

enum { kNumMessages = 4, kNumQuestions = 2, kMaxAnswer = 48, kMaxPiece = 512 };

/* A list of messages is three arrays. The last content is the question's. */
static const int32_t kRoles[kNumMessages] = {NL_ROLE_SYSTEM, NL_ROLE_USER, NL_ROLE_USER, NL_ROLE_USER};
static const char *const kContents[kNumMessages - 1] = {
    "Each document is one record. Answer each question from the records, in as few words as possible.",
    "Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. Boso Polm paid exactly 50 "
    "crowns.",
    "Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. Beso Bralm paid exactly "
    "39 crowns.",
};
static const char *const kQuestions[kNumQuestions] = {"Name the key that Beso Bralm got.",
                                                      "Name the place where Boso Polm stayed."};

/* The models in examples/model have marks of their own, which no format here knows: then the caller writes them. */
static const char *const kOwnContents[kNumMessages - 1] = {
    "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.",
    "<|doc|> Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. Boso Polm paid "
    "exactly 50 crowns.",
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. Beso Bralm paid "
    "exactly 39 crowns.",
};
static const char *const kOwnQuestions[kNumQuestions] = {
    "<|user|> Name the key that Beso Bralm got.<|assistant|>",
    "<|user|> Name the place where Boso Polm stayed.<|assistant|>"};

/* Says what went wrong and returns 1 when a call failed; returns 0 when it did not. */
static int failed(nl_status status, const char *doing) {
    if (status == NL_OK) return 0;
    fflush(stdout);
    fprintf(stderr, "%s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    return 1;
}

typedef struct {
    nl_engine *engine;
    nl_tokenizer *tokenizer;
    nl_chat_format *format;
    int writes_own_marks;
} session_t;

/* The named format; without a name the model's, or "plain" where it has none that is known. */
static int open_format(session_t *session, const char *name) {
    char text[64];
    size_t length = 0;
    const size_t name_length = name != NULL ? strlen(name) : 0;
    nl_status status = nl_chat_format_create(session->tokenizer, name, name_length, &session->format);
    if (name == NULL && (status == NL_ERROR_NOT_FOUND || status == NL_ERROR_UNSUPPORTED)) {
        fprintf(stderr, "%s\n", nl_last_error());
        session->writes_own_marks = 1;
        status = nl_chat_format_create(session->tokenizer, "plain", 5, &session->format);
    }
    if (failed(status, "choosing the chat format")) return 1;
    if (failed(nl_chat_format_name(session->format, text, sizeof text, &length), "asking for its name")) return 1;
    printf("The chat format is %.*s\n", (int)length, text);
    return 0;
}

/* The chat's tokens, to be freed by the caller, and where each message's part ends. */
static int render(const session_t *session, int question, int32_t **tokens, size_t *count, size_t *ends) {
    const char *contents[kNumMessages];
    size_t lengths[kNumMessages];
    for (int i = 0; i < kNumMessages; ++i) {
        if (i + 1 < kNumMessages) contents[i] = session->writes_own_marks ? kOwnContents[i] : kContents[i];
        if (i + 1 == kNumMessages)
            contents[i] = session->writes_own_marks ? kOwnQuestions[question] : kQuestions[question];
        lengths[i] = strlen(contents[i]);
    }
    /* The first call tells how much room the second one needs. */
    *tokens = NULL;
    nl_status status = nl_chat_format_render(session->format, kRoles, contents, lengths, kNumMessages,
                                             NL_CHAT_ADD_GENERATION_PROMPT, ends, NULL, 0, count);
    if (status == NL_ERROR_BUFFER_TOO_SMALL) {
        *tokens = malloc(*count * sizeof **tokens);
        if (*tokens == NULL) return 1;
        status = nl_chat_format_render(session->format, kRoles, contents, lengths, kNumMessages,
                                       NL_CHAT_ADD_GENERATION_PROMPT, ends, *tokens, *count, count);
    }
    return failed(status, "rendering the chat");
}

/* Prefills all messages but the last into chunks; the question is private to its cache. Parts without tokens have none.
 */
static int prefill(const session_t *session, const int32_t *tokens, const size_t *ends, nl_chunk **chunks,
                   size_t *count) {
    *count = 0;
    for (int i = 0; i + 1 < kNumMessages; ++i) {
        const size_t begin = i > 0 ? ends[i - 1] : 0;
        const int32_t level = kRoles[i] == NL_ROLE_SYSTEM ? NL_LEVEL_SYSTEM : NL_LEVEL_CONTEXT;
        int64_t computed = 0;
        if (ends[i] == begin) continue;
        if (failed(nl_chunk_prefill(session->engine, tokens + begin, ends[i] - begin, level, NULL, 0, &chunks[*count]),
                   "prefilling a message"))
            return 1;
        if (failed(nl_chunk_query(chunks[(*count)++], NL_CHUNK_TOKENS_COMPUTED, &computed),
                   "asking for a chunk's facts"))
            return 1;
        printf("  message %d: %zu tokens, %s\n", i + 1, ends[i] - begin,
               computed > 0 ? "computed" : "found in the store");
    }
    return 0;
}

/* Starts an answer after the question, and prints its text as it comes. */
static int answer(nl_cache *cache, const int32_t *question, size_t num_tokens) {
    nl_options *options = NULL;
    nl_generation *generation = NULL;
    char text[kMaxPiece];
    size_t length = 0;
    int32_t end = NL_END_NONE;
    int bad = failed(nl_options_create(NL_OPTIONS_GENERATION, &options), "making options") ||
              failed(nl_options_set_int(options, NL_OPTION_MAX_TOKENS, kMaxAnswer), "limiting the answer") ||
              failed(nl_generation_start(cache, question, num_tokens, options, &generation), "starting the answer");
    while (!bad && end == NL_END_NONE) {
        bad = failed(nl_generation_next(generation, -1, NULL, 0, NULL, text, sizeof text, &length, &end),
                     "waiting for the answer");
        if (!bad) fwrite(text, 1, length, stdout);
        fflush(stdout);
    }
    printf("\n");
    nl_generation_free(generation);
    nl_options_free(options);
    return bad;
}

static int ask(const session_t *session, int question) {
    int32_t *tokens = NULL;
    size_t count = 0;
    size_t ends[kNumMessages];
    nl_chunk *chunks[kNumMessages] = {NULL};
    size_t num_chunks = 0;
    nl_options *options = NULL;
    nl_cache *cache = NULL;
    printf("\n> %s\n", kQuestions[question]);
    int bad = render(session, question, &tokens, &count, ends) || prefill(session, tokens, ends, chunks, &num_chunks) ||
              failed(nl_options_create(NL_OPTIONS_CACHE, &options), "making options") ||
              failed(nl_options_set_int(options, NL_OPTION_COMPOSITION, NL_COMPOSE_INDEPENDENT),
                     "choosing the composition") ||
              failed(nl_cache_create(session->engine, options, (const nl_chunk *const *)chunks, num_chunks, &cache),
                     "putting chunks together") ||
              answer(cache, tokens + ends[kNumMessages - 2], count - ends[kNumMessages - 2]);
    nl_cache_free(cache);
    nl_options_free(options);
    /* The store keeps the chunks for the next chat. */
    for (size_t i = 0; i < num_chunks; ++i) nl_chunk_free(chunks[i]);
    free(tokens);
    return bad;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : NL_EXAMPLE_MODEL;
    session_t session = {NULL, NULL, NULL, 0};
    int bad = failed(nl_engine_create(model, strlen(model), NULL, &session.engine), "loading the model") ||
              failed(nl_engine_tokenizer(session.engine, &session.tokenizer), "getting the tokenizer") ||
              open_format(&session, argc > 2 ? argv[2] : NULL);
    for (int i = 0; !bad && i < kNumQuestions; ++i) bad = ask(&session, i);
    nl_chat_format_free(session.format);
    nl_tokenizer_free(session.tokenizer);
    nl_engine_free(session.engine);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
