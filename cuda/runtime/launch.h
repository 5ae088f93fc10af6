// Starting a kernel, checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "base/result.h"
#include "runtime/check.h"

namespace nanolith::cuda {

struct LaunchShape {
    dim3 grid;
    dim3 block;
    size_t shared_bytes = 0;  // dynamic shared memory of a block
    bool early = false;       // may begin before the launch before it on the stream has ended (device/dependent.cuh)
};

// Puts `kernel` on `stream`. The arguments convert to the kernel's parameter types as in a call.
template <typename... Parameters>
Result<void> launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                    std::type_identity_t<Parameters>... arguments) {
    const void* const function = reinterpret_cast<const void*>(kernel);
    // CUDA gives a block more dynamic shared memory than this only where the kernel's attribute says so.
    constexpr size_t kAlwaysAllowed = 48 * 1024;
    if (shape.shared_bytes > kAlwaysAllowed) {
        NL_CUDA_TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)));
    }
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = shape.early ? 1 : 0;
    void* pointers[] = {static_cast<void*>(&arguments)...};
    NL_CUDA_TRY(cudaLaunchKernelExC(&config, function, pointers));
    return {};
}

}  // namespace nanolith::cuda
