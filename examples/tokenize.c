/*
 * Shows the tokens of a text.
 *
 *   tokenize [MODEL_FOLDER [TEXT]]
 */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxTokens = 1024 };

/* Says what failed. Returns whether something did. */
static int failed(nl_status status) {
    if (status == NL_OK) return 0;
    fprintf(stderr, "%s\n", nl_last_error());
    return 1;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "examples/model";
    const char *text = argc > 2 ? argv[2] : "<|user|> Name the place where Boso Polm worked: Z\xc3\xbcrich?";
    nl_tokenizer *tokenizer = NULL;
    int32_t tokens[kMaxTokens];
    char buffer[8 * kMaxTokens];
    size_t count = 0;
    size_t length = 0;

    int bad = failed(nl_tokenizer_load(model, strlen(model), &tokenizer)) ||
              failed(nl_tokenizer_encode(tokenizer, text, strlen(text), NL_ENCODE_ADD_BOS, tokens, kMaxTokens, &count));
    for (size_t i = 0; i < count && !bad; ++i) {
        bad = failed(nl_tokenizer_piece(tokenizer, tokens[i], buffer, sizeof buffer, &length));
        if (!bad) printf("%d %.*s\n", (int)tokens[i], (int)length, buffer);
    }
    if (!bad) bad = failed(nl_tokenizer_decode(tokenizer, tokens, count, buffer, sizeof buffer, &length));
    if (!bad) printf("%.*s\n", (int)length, buffer);
    nl_tokenizer_free(tokenizer);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
