// Finds libnanolith_cuda.so, opens it and asks it for a device. Nothing else of the library knows that CUDA exists.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/kernels.h"

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

// Opens the first library that can be opened. If a folder has one that cannot (it needs a library that is missing,
// say), the search continues, and the error names that library with the linker's reason.
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

// Opens device `index` with the library's function `name`, which is of type Open. `missing` says in the error what a
// library without that function lacks.
template <typename Opened, typename Open>
Result<std::unique_ptr<Opened>> open_with(const char* name, const Error& missing, int32_t index) {
    if (index < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "the index of the CUDA device is ", index, ": expected at least 0");
    NL_ASSIGN(const Library library, find_library());
    auto* const open = reinterpret_cast<Open*>(dlsym(library.handle, name));
    if (open == nullptr) {
        dlclose(library.handle);
        return fail(missing.status, library.path, missing.message, name);
    }
    // From here on the library stays loaded, since objects made by it may live until the process ends.
    Result<std::unique_ptr<Opened>> result = fail(NL_ERROR_INTERNAL, library.path, " gave no answer");
    open(kVersion, index, result);
    if (!result.ok()) return fail(result.error().status, library.path, ": ", result.error().message);
    if (*result == nullptr) return fail(NL_ERROR_INTERNAL, library.path, " gave no device and no error");
    return result;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda_backend(int32_t index) {
    return open_with<Backend, BackendOpen>(
        kBackendOpenName, {NL_ERROR_NOT_FOUND, " is no backend of this library: it does not export "}, index);
}

Result<std::unique_ptr<Kernels>> open_cuda_kernels(int32_t index) {
    return open_with<Kernels, KernelsOpen>(
        kKernelsOpenName, {NL_ERROR_UNSUPPORTED, " was built without the kernel-level ABI: it does not export "},
        index);
}

}  // namespace nanolith
