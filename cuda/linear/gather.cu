// A thread for each element. Bytes: 4 size for the order, and 2 sizeof(T) size for each row; bound by latency for few
// rows, and by L2, from which single elements come, for many.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "linear/gather.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) gather_kernel(const T* x, const int32_t* columns, int size, T* to) {
    const int i = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * size;
    if (i < size) to[row + i] = x[row + columns[i]];
}

}  // namespace

template <typename T>
Result<void> gather_columns(const T* x, const int32_t* columns, int rows, int size, T* to, cudaStream_t stream) {
    // Rows go along x, whose limit is 2^31 - 1; that of y is 65535.
    const auto blocks = static_cast<unsigned>((size + kThreads - 1) / kThreads);
    const LaunchShape shape{dim3(static_cast<unsigned>(rows), blocks), dim3(kThreads)};
    return launch(gather_kernel<T>, shape, stream, x, columns, size, to);
}

template Result<void> gather_columns(const float*, const int32_t*, int, int, float*, cudaStream_t);
template Result<void> gather_columns(const __half*, const int32_t*, int, int, __half*, cudaStream_t);
template Result<void> gather_columns(const __nv_bfloat16*, const int32_t*, int, int, __nv_bfloat16*, cudaStream_t);

}  // namespace nanolith::cuda
