// One block for each row, whose threads hold their elements between the sum of squares and the result; of rows of more
// than kHeld elements the others are read twice, the second time from cache. Bytes: 4 hidden to read and 2 hidden to
// write a row (8 and 4 where it is added to the residual stream); bound by memory.
#include "device/dependent.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "norm/rms_norm.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kNormThreads = 128;
constexpr int kHeld = 4096;

// N: the elements of one access, 4 or 1.
template <typename T, int N>
__global__ void __launch_bounds__(kNormThreads)
    rms_norm_kernel(const float* residual, const int32_t* row_index, Norm norm, int hidden, T* to) {
    constexpr int kStep = kNormThreads * N;
    constexpr int kSteps = kHeld / kStep;
    wait_for_launches_before();
    const int row = static_cast<int>(blockIdx.x);
    const float* const from = residual + static_cast<int64_t>(row_index != nullptr ? row_index[row] : row) * hidden;
    to += static_cast<int64_t>(row) * hidden;
    const int first = static_cast<int>(threadIdx.x) * N;
    float held[kSteps][N];
    float squares = 0;
    const auto add_squares = [&](const float(&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) squares += values[i] * values[i];
    };
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        if (first + step * kStep < hidden) load_values(from + first + step * kStep, held[step]);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        if (first + step * kStep < hidden) add_squares(held[step]);
    }
    for (int at = first + kHeld; at < hidden; at += kStep) {
        float values[N];
        load_values(from + at, values);
        add_squares(values);
    }
    const float scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + norm.epsilon);
    const auto write = [&](int at, float(&values)[N]) {
        float weights[N];
        load_values(norm.weight + at, weights);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] *= scale * weights[i];
        store_values(to + at, values);
    };
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        if (first + step * kStep < hidden) write(first + step * kStep, held[step]);
    }
    for (int at = first + kHeld; at < hidden; at += kStep) {
        float values[N];
        load_values(from + at, values);
        write(at, values);
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
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kNormThreads), 0, early};
    const auto kernel = hidden % 4 == 0 ? rms_norm_kernel<T, 4> : rms_norm_kernel<T, 1>;
    return launch(kernel, shape, stream, residual, row_index, norm, hidden, to);
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
