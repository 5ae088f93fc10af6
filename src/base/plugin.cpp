#include "base/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#define NL_TEXT_(x) #x
#define NL_TEXT(x) NL_TEXT_(x)

namespace nanolith {
namespace {

// The folder that this code was loaded from, "" where the system doesn't tell.
std::string own_folder() {
    static const char here = 0;  // any address inside this library
    Dl_info info{};
    if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

// NANOLITH_BACKEND_PATH's folders, empty ones skipped, then the library's own.
std::vector<std::string> search_folders() {
    std::vector<std::string> folders;
    const char* listed = std::getenv("NANOLITH_BACKEND_PATH");
    std::string rest = listed == nullptr ? "" : listed;
    while (!rest.empty()) {
        const size_t colon = rest.find(':');
        if (colon != 0) folders.push_back(rest.substr(0, colon));
        rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
    const std::string own = own_folder();
    if (!own.empty()) folders.push_back(own);
    return folders;
}

}  // namespace

const char* own_version() {
    return NL_TEXT(NL_VERSION_MAJOR) "." NL_TEXT(NL_VERSION_MINOR) "." NL_TEXT(NL_VERSION_PATCH);
}

Result<PluginFunction> find_in_plugin(const std::string& library, const std::string& what, const char* name,
                                      const Error& missing) {
    std::string tried;
    for (const std::string& folder : search_folders()) {
        const std::string path = std::string(folder).append("/").append(library);
        void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* reason = dlerror();
            if (!tried.empty()) tried += "; ";
            tried += reason == nullptr ? path.c_str() : reason;
            continue;
        }
        void* const address = dlsym(handle, name);
        if (address != nullptr) return PluginFunction{address, path};
        dlclose(handle);
        return fail(missing.status, path, missing.message, name);
    }
    return fail(NL_ERROR_NOT_FOUND, what, " ", library,
                " could not be loaded: ", tried.empty() ? "there is no folder to look in" : tried);
}

}  // namespace nanolith
