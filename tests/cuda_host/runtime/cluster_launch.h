// Stands in for cuda/runtime/cluster_launch.h.
#pragma once

#include "runtime/launch.h"

namespace nanolith::cuda {

template <typename... Parameters>
Result<void> launch_cluster(void (*kernel)(Parameters...), const LaunchShape& shape, int blocks, cudaStream_t stream,
                            std::type_identity_t<Parameters>... arguments) {
    NL_CUDA_TRY(cuda_host::check_launch(shape.grid, shape.block, shape.shared_bytes));
    cuda_host::submit(stream, [=] {
        cuda_host::run_grid(shape.grid, shape.block, shape.shared_bytes, static_cast<unsigned>(blocks),
                            [=] { kernel(arguments...); });
    });
    return {};
}

}  // namespace nanolith::cuda
