// nl_cache_free as dlsym finds it, for callers that open the library at run time.
//
// Netlink's libnl-3 exports a function of this name too, without a symbol version, so the dynamic linker may hand the
// one to callers of the other. Programs linked to this library are safe by asking for another symbol (NL_SYMBOL in
// nanolith.h). Calls meant for libnl-3 may therefore arrive here in such a program; they are passed on to libnl-3.
#include <dlfcn.h>

#include <cstring>

#include "api/handles.h"

namespace {

// libnl-3's function of this name. If the order of linking sent the call here, libnl-3 comes later in that order
// (RTLD_NEXT). If the program opened both libraries, this one with RTLD_GLOBAL, it is not in that order at all.
void free_netlink_cache(void* cache) {
    void* library = nullptr;
    void* function = dlsym(RTLD_NEXT, "nl_cache_free");
    if (function == nullptr) {
        library = dlopen("libnl-3.so.200", RTLD_LAZY | RTLD_NOLOAD);
        if (library != nullptr) function = dlsym(library, "nl_cache_free");
    }
    if (function != nullptr) reinterpret_cast<void (*)(void*)>(function)(cache);
    if (library != nullptr) dlclose(library);
}

}  // namespace

extern "C" {
NL_API void nl_cache_free_by_name(void* cache) NL_SYMBOL("nl_cache_free");

void nl_cache_free_by_name(void* cache) {
    if (cache == nullptr) return;
    uint64_t tag = 0;
    std::memcpy(&tag, cache, sizeof tag);  // Netlink's caches are larger
    if (tag == nl_cache::kTag)
        nl_cache_free(static_cast<nl_cache*>(cache));
    else
        free_netlink_cache(cache);
}
}
