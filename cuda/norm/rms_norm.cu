// One block for each row: a pass for the sum of squares, a second (from cache) for the result. Bytes: 4 hidden
// to read and 2 hidden to write a row (8 and 4 where it is added to the residual stream); bound by memory.
#include "device/dependent.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "norm/rms_norm.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(const float* residual, const int32_t* row_index, Norm norm, int hidden, T* to) {
    wait_for_launches_before();
    const int row = static_cast<int>(blockIdx.x);
    const float* from = residual + static_cast<int64_t>(row_index != nullptr ? row_index[row] : row) * hidden;
    to += static_cast<int64_t>(row) * hidden;
    float squares = 0;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) squares += from[i] * from[i];
    const float scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + norm.epsilon);
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) {
        to[i] = from_float<T>(from[i] * scale * norm.weight[i]);
    }
}

// Reads x twice, the second time from cache.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_normed_kernel(const float* x, const T* bias, Norm norm, int hidden, float* residual) {
    let_next_launch_begin();
    wait_for_launches_before();
    x += static_cast<int64_t>(blockIdx.x) * hidden;
    residual += static_cast<int64_t>(blockIdx.x) * hidden;
    const auto value = [&](int i) { return x[i] + (bias != nullptr ? to_float(bias[i]) : 0.0F); };
    float scale = 1;
    if (norm.weight != nullptr) {
        float squares = 0;
        for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) squares += value(i) * value(i);
        scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + norm.epsilon);
    }
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) {
        const float weight = norm.weight != nullptr ? norm.weight[i] : 1.0F;
        residual[i] += value(i) * scale * weight;
    }
}

}  // namespace

template <typename T>
Result<void> rms_norm(const float* residual, const int32_t* row_index, const Norm& norm, int rows, int hidden, T* to,
                      bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, early};
    return launch(rms_norm_kernel<T>, shape, stream, residual, row_index, norm, hidden, to);
}

template <typename T>
Result<void> add_normed(const float* x, const T* bias, const Norm& norm, int rows, int hidden, float* residual,
                        bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, early};
    return launch(add_normed_kernel<T>, shape, stream, x, bias, norm, hidden, residual);
}

#define NL_INSTANTIATE(T)                                                                                        \
    template Result<void> rms_norm(const float*, const int32_t*, const Norm&, int, int, T*, bool, cudaStream_t); \
    template Result<void> add_normed(const float*, const T*, const Norm&, int, int, float*, bool, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
