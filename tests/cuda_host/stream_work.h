// What a stream does: it runs work when somebody waits for it, as late as a device may, or records it while it is
// captured into a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace cuda_host {

void submit(cudaStream_t stream, std::function<void()> work);

// cudaErrorInvalidConfiguration where a device of compute capability 9.0 would refuse the launch.
cudaError_t check_launch(dim3 grid, dim3 block, size_t shared_bytes);

}  // namespace cuda_host
