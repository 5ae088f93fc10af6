// Libraries of this project that are opened at run time: one for each thing that not every user needs (a GPU, a
// server).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace nanolith {

// A function of a plugin, as dlsym() gives it, and the plugin's path.
struct PluginFunction {
    void* address = nullptr;
    std::string path;
};

// Finds function `name` in the first library `library` that can be opened: in NANOLITH_BACKEND_PATH's folders
// (separated by colons), then in the folder of this library. If a folder has one that cannot be opened (it needs a
// library that is missing, say), the search continues, and the error, NOT_FOUND, names that library with the linker's
// reason. `what` begins the error's sentence: "the CUDA backend". Where the library lacks the function, the error is
// `missing` with the path before its message and the name after it. The library stays loaded, since objects made by it
// may live until the process ends.
Result<PluginFunction> find_in_plugin(const std::string& library, const std::string& what, const char* name,
                                      const Error& missing);

// What a plugin's function, of type Open, makes of the library's version and `argument`.
template <typename Made, typename Open, typename Argument>
Result<std::unique_ptr<Made>> make_with(const PluginFunction& function, const char* version, const Argument& argument) {
    Result<std::unique_ptr<Made>> result = fail(NL_ERROR_INTERNAL, function.path, " gave no answer");
    reinterpret_cast<Open*>(function.address)(version, argument, result);
    if (!result.ok()) return fail(result.error().status, function.path, ": ", result.error().message);
    if (*result == nullptr) return fail(NL_ERROR_INTERNAL, function.path, " gave nothing and no error");
    return result;
}

// This library's own version, "1.2.3".
const char* own_version();

}  // namespace nanolith
