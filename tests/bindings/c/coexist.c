/*
 * A process that uses libnanolith and Netlink's libnl-3, which both export nl_cache_free: each side gets its own.
 *
 *   coexist MODEL_FOLDER linked
 *   coexist MODEL_FOLDER opened FIRST_LIBRARY SECOND_LIBRARY     the plugin and libnanolith, in either order
 *
 * Built once with COEXIST_LINKED, and then linked to both, and once without.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nanolith/nanolith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    nl_status (*engine_create)(const char *, size_t, const nl_options *, nl_engine **);
    void (*engine_free)(nl_engine *);
    nl_status (*cache_create)(nl_engine *, const nl_options *, const nl_chunk *const *, size_t, nl_cache **);
    nl_status (*cache_extend)(nl_cache *, const int32_t *, size_t);
    void (*cache_free)(nl_cache *);
    nl_status (*engine_query)(const nl_engine *, int32_t, int64_t *);
    int (*use_netlink)(void);
} call;

#ifdef COEXIST_LINKED
int use_netlink(void);
static int resolve(char **libraries) {
    (void)libraries;
    call.engine_create = nl_engine_create;
    call.engine_free = nl_engine_free;
    call.cache_create = nl_cache_create;
    call.cache_extend = nl_cache_extend;
    call.cache_free = nl_cache_free;
    call.engine_query = nl_engine_query;
    call.use_netlink = use_netlink;
    return 0;
}
#else
static int look_up(void *library, const char *name, void *pointer) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) return 0;
    memcpy(pointer, &symbol, sizeof symbol);
    return 1;
}

/* RTLD_GLOBAL is the hard case: both nl_cache_free are there for everyone to find. */
static int resolve(char **libraries) {
    int found = 0;
    for (int i = 0; i < 2; ++i) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
        if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
        if (look_up(library, "use_netlink", &call.use_netlink)) {
            ++found;
            continue;
        }
        found += look_up(library, "nl_engine_create", &call.engine_create) +
                 look_up(library, "nl_engine_free", &call.engine_free) +
                 look_up(library, "nl_cache_create", &call.cache_create) +
                 look_up(library, "nl_cache_extend", &call.cache_extend) +
                 look_up(library, "nl_cache_free", &call.cache_free) +
                 look_up(library, "nl_engine_query", &call.engine_query);
    }
    return found == 7 ? 0 : (fprintf(stderr, "found %d functions of 7\n", found), 1);
}
#endif

static int fail(const char *what, int number) {
    fprintf(stderr, "%s: %d\n", what, number);
    return EXIT_FAILURE;
}

int main(int argc, char **argv) {
    static const int32_t kTokens[3] = {1, 7, 9};
    nl_engine *engine = NULL;
    nl_cache *cache = NULL;
    Dl_info from;
    void *address = NULL;
    int64_t before = 0;
    int64_t during = 0;
    int64_t after = 0;
    if (argc < 3 || resolve(argv + 3)) return EXIT_FAILURE;
    memcpy(&address, &call.cache_free, sizeof address);
    if (dladdr(address, &from) == 0 || strstr(from.dli_fname, "libnanolith") == NULL)
        return fprintf(stderr, "nl_cache_free is %s's\n", from.dli_fname), EXIT_FAILURE;
    if (call.engine_create(argv[1], strlen(argv[1]), NULL, &engine)) return fail("nl_engine_create", 0);
    for (int i = 0; i < 3; ++i) {
        int step = call.use_netlink();
        if (step != 0) return fail("use_netlink", step);
        call.engine_query(engine, NL_ENGINE_PAGES_FREE, &before);
        if (call.cache_create(engine, NULL, NULL, 0, &cache) || call.cache_extend(cache, kTokens, 3))
            return fail("nl_cache_extend", i);
        step = call.use_netlink();
        if (step != 0) return fail("use_netlink", step);
        call.engine_query(engine, NL_ENGINE_PAGES_FREE, &during);
        call.cache_free(cache);
        call.engine_query(engine, NL_ENGINE_PAGES_FREE, &after);
        if (during != before - 1 || after != before) return fail("pages", (int)(before - after));
    }
    call.engine_free(engine);
    return EXIT_SUCCESS;
}
