/* Answers a question about a document. Where a call fails, its sentence ends the program.   minimal [MODEL_FOLDER] */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <string.h>
#define MUST(call) \
    if ((call) != NL_OK) return fprintf(stderr, "%s\n", nl_last_error()), 1
static const char kDocument[] = "<|doc|> Boso Polm left on 7 July. Boso Polm worked in Jewick.";
static const char kQuestion[] = "<|user|> Name the place where Boso Polm worked.<|assistant|>";
int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "examples/model";
    int32_t tokens[256], end;
    size_t count, length;
    char text[256];
    /* README.md shows what follows. */
    nl_engine *engine; /* a model, on a GPU where there is one */
    nl_tokenizer *tokenizer;
    MUST(nl_engine_create(folder, strlen(folder), NULL, &engine));
    MUST(nl_engine_tokenizer(engine, &tokenizer));

    nl_chunk *document; /* is computed once */
    MUST(nl_tokenizer_encode(tokenizer, kDocument, strlen(kDocument), NL_ENCODE_ADD_BOS, tokens, 256, &count));
    MUST(nl_chunk_prefill(engine, tokens, count, NL_LEVEL_CONTEXT, NULL, 0, &document));

    nl_cache *conversation; /* any number of them begin with the document, which costs nothing */
    MUST(nl_cache_create(engine, NULL, (const nl_chunk *const *)&document, 1, &conversation));

    nl_generation *answer; /* the engine draws it after the question */
    MUST(nl_tokenizer_encode(tokenizer, kQuestion, strlen(kQuestion), 0, tokens, 256, &count));
    MUST(nl_generation_start(conversation, tokens, count, NULL, &answer));
    do { /* text, as it comes */
        MUST(nl_generation_next(answer, -1, NULL, 0, NULL, text, sizeof text, &length, &end));
        fwrite(text, 1, length, stdout);
    } while (end == NL_END_NONE);
    nl_generation_free(answer); /* everything in any order */
    nl_cache_free(conversation);
    nl_chunk_free(document);
    nl_tokenizer_free(tokenizer);
    nl_engine_free(engine);
    /* README.md has shown it. */
}
