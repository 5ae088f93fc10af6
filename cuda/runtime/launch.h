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
};

// Puts `kernel` on `stream`. The arguments convert to the kernel's parameter types as in a call.
// A block gets more than 48 KiB of shared memory only when asked for beforehand.
template <typename... Parameters>
Result<void> launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                    std::type_identity_t<Parameters>... arguments) {
    const void* const function = reinterpret_cast<const void*>(kernel);
    constexpr size_t kAlwaysAllowed = 48 * 1024;
    if (shape.shared_bytes > kAlwaysAllowed) {
        NL_CUDA_TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)));
    }
    void* pointers[] = {static_cast<void*>(&arguments)...};
    NL_CUDA_TRY(cudaLaunchKernel(function, shape.grid, shape.block, pointers, shape.shared_bytes, stream));
    return {};
}

}  // namespace nanolith::cuda
