// Finds libnanolith_cuda.so and asks it for a device. Nothing else of the library knows that CUDA exists.
#include "backend/backend.h"
#include "backend/kernels.h"
#include "base/plugin.h"

namespace nanolith {
namespace {

// Opens device `index` with the library's function `name`, which is of type Open. `missing` says in the error what a
// library without that function lacks.
template <typename Opened, typename Open>
Result<std::unique_ptr<Opened>> open_with(const char* name, const Error& missing, int32_t index) {
    if (index < 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "the index of the CUDA device is ", index, ": expected at least 0");
    NL_ASSIGN(const PluginFunction open, find_in_plugin("libnanolith_cuda.so", "the CUDA backend", name, missing));
    return make_with<Opened, Open>(open, own_version(), index);
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
