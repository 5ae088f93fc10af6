// One thread for each element. Bytes: 8 an element; bound by memory.
#include "runtime/launch.h"
#include "sample/softcap.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) softcap_kernel(float* x, int64_t count, float cap) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i < count) x[i] = cap * tanhf(x[i] / cap);
}

}  // namespace

Result<void> softcap(float* x, int64_t count, float cap, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads)};
    return launch(softcap_kernel, shape, stream, x, count, cap);
}

}  // namespace nanolith::cuda
