/*
 * Prints what a model folder is and what of it is supported, without loading it.
 *
 *   model_facts [MODEL_FOLDER]
 *
 * Exit status: 0 where the model can be used, 1 where it can't, 2 where there is no such folder.
 */
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "examples/model";
    size_t length = 0;
    char *text = NULL;

    /* The first call tells the size. */
    nl_status status = nl_model_describe(folder, strlen(folder), NL_DESCRIBE_TEXT, NULL, 0, &length);
    if (status == NL_ERROR_BUFFER_TOO_SMALL) {
        text = malloc(length + 1);
        if (text == NULL) return 2;
        status = nl_model_describe(folder, strlen(folder), NL_DESCRIBE_TEXT, text, length, &length);
    }
    if (status != NL_OK || text == NULL) {
        fprintf(stderr, "%s\n", nl_last_error());
        free(text);
        return 2;
    }
    text[length] = '\0';
    fputs(text, stdout);
    const int usable = strncmp(text, "model: supported\n", 17) == 0;
    free(text);
    return usable ? EXIT_SUCCESS : EXIT_FAILURE;
}
