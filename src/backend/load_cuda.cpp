// Finds libnanolith_cuda.so, opens it and asks it for a device. Nothing else of the library knows that CUDA exists.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "backend/backend.h"

#define NL_TEXT_(x) #x
#define NL_TEXT(x) NL_TEXT_(x)

namespace nanolith {
namespace {

constexpr const char* kLibrary = "libnanolith_cuda.so";
constexpr const char* kVersion = NL_TEXT(NL_VERSION_MAJOR) "." NL_TEXT(NL_VERSION_MINOR) "." NL_TEXT(NL_VERSION_PATCH);

// The folder that this code was loaded from, "" where the system doesn't tell.
std::string own_folder() {
    static const char here = 0;  // any address inside this library
    Dl_info info{};
    if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

// NANOLITH_BACKEND_PATH's folders (separated by colons, empty ones skipped), then the library's own.
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

struct Library {
    void* handle = nullptr;
    std::string path;
};

// The first of the folders' libraries that opens. A library that is there and does not open (it misses the CUDA
// runtime, say) is named with the linker's reason, and the search goes on.
Result<Library> find_library() {
    std::string tried;
    for (const std::string& folder : search_folders()) {
        Library library{nullptr, folder + "/" + kLibrary};
        library.handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library.handle != nullptr) return library;
        const char* reason = dlerror();
        tried += std::string(tried.empty() ? "" : "; ") + (reason == nullptr ? library.path : reason);
    }
    return fail(NL_ERROR_NOT_FOUND, "the CUDA backend ", kLibrary,
                " could not be loaded: ", tried.empty() ? "there is no folder to look in" : tried);
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda_backend(int32_t index) {
    if (index < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "the index of the CUDA device is ", index, ", expected at least 0");
    NL_ASSIGN(const Library library, find_library());
    auto* const open = reinterpret_cast<BackendOpen*>(dlsym(library.handle, kBackendOpenName));
    if (open == nullptr) {
        dlclose(library.handle);
        return fail(NL_ERROR_NOT_FOUND, library.path, " is no backend of this library: it does not export ",
                    kBackendOpenName);
    }
    // From here on the library stays loaded: backends and executors made from it live as long as they like.
    Result<std::unique_ptr<Backend>> result = fail(NL_ERROR_INTERNAL, library.path, " gave no answer");
    open(kVersion, index, result);
    if (!result.ok()) return fail(result.error().status, library.path, ": ", result.error().message);
    if (*result == nullptr) return fail(NL_ERROR_INTERNAL, library.path, " gave no backend and no error");
    return result;
}

}  // namespace nanolith
