// One block for each row: a pass for the sum of squares, a second (from cache) for the result. Bytes: 4 hidden
// to read and 2 hidden to write a row; bound by memory.
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "norm/rms_norm.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(const float* residual, const int32_t* row_index,
                                                            const T* weight, float epsilon, int hidden, T* to) {
    const int row = static_cast<int>(blockIdx.x);
    const float* from = residual + static_cast<int64_t>(row_index != nullptr ? row_index[row] : row) * hidden;
    to += static_cast<int64_t>(row) * hidden;
    float squares = 0;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) squares += from[i] * from[i];
    const float scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + epsilon);
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) {
        to[i] = from_float<T>(from[i] * scale * to_float(weight[i]));
    }
}

}  // namespace

template <typename T>
Result<void> rms_norm(const float* residual, const int32_t* row_index, const T* weight, float epsilon, int rows,
                      int hidden, T* to, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads)};
    return launch(rms_norm_kernel<T>, shape, stream, residual, row_index, weight, epsilon, hidden, to);
}

#define NL_INSTANTIATE(T) \
    template Result<void> rms_norm(const float*, const int32_t*, const T*, float, int, int, T*, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
