// Stands in for cuda/runtime/launch.h: runs the kernel on the CPU when its stream gets there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "base/result.h"
#include "block.h"
#include "runtime/check.h"
#include "stream_work.h"

namespace nanolith::cuda {

struct LaunchShape {
    dim3 grid;
    dim3 block;
    size_t shared_bytes = 0;
    bool early = false;
};

template <typename... Parameters>
Result<void> launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                    std::type_identity_t<Parameters>... arguments) {
    NL_CUDA_TRY(cuda_host::check_launch(shape.grid, shape.block, shape.shared_bytes));
    cuda_host::submit(stream, [=] {
        cuda_host::run_grid(shape.grid, shape.block, shape.shared_bytes, 1, [=] { kernel(arguments...); });
    });
    return {};
}

}  // namespace nanolith::cuda
