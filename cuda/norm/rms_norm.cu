// One block for each row, with so many threads that each has few elements, which it holds between the sum of squares
// and the result; what more the longest rows have is read twice, the second time from cache. So the code is short: with
// few rows fetching it takes as long as the rows do. Bytes: 4 hidden to read and 2 hidden to write a row (8 and 4 where
// it is added to the residual stream); bound by memory with many rows. At most 32 registers a thread.
#include <algorithm>

#include "device/dependent.cuh"
#include "device/number.cuh"
#include "device/prefetch.cuh"
#include "device/reduce.cuh"
#include "norm/rms_norm.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kFewestThreads = 128;
constexpr int kMostThreads = 1024;
constexpr int kHeldSteps = 2;  // accesses whose elements a thread holds
constexpr int kVector = 4;     // elements of one access, where rows are a multiple of it

// A block's threads for rows of `hidden` elements, N of them an access.
template <int N>
int threads_for(int hidden) {
    const int warps = (hidden + N * kHeldSteps * kWarp - 1) / (N * kHeldSteps * kWarp);
    return std::clamp(warps * kWarp, kFewestThreads, kMostThreads);
}

// Reads a row with read(at, values), N elements from `at` on, and calls write(at, values, scale) for each of these,
// where scale is 1 / sqrt(mean of squares + epsilon).
template <int N, typename Read, typename Write>
__device__ void norm_row(int hidden, float epsilon, const Read& read, const Write& write) {
    const int stride = static_cast<int>(blockDim.x) * N;
    const int first = static_cast<int>(threadIdx.x) * N;
    float held[kHeldSteps][N];
    float squares = 0;
    const auto add_squares = [&](const float(&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) squares += values[i] * values[i];
    };
#pragma unroll
    for (int step = 0; step < kHeldSteps; ++step) {
        if (first + step * stride < hidden) read(first + step * stride, held[step]);
    }
#pragma unroll
    for (int step = 0; step < kHeldSteps; ++step) {
        if (first + step * stride < hidden) add_squares(held[step]);
    }
#pragma unroll 1
    for (int at = first + kHeldSteps * stride; at < hidden; at += stride) {
        float values[N];
        read(at, values);
        add_squares(values);
    }
    const float scale = rsqrtf(block_sum(squares) / static_cast<float>(hidden) + epsilon);
#pragma unroll
    for (int step = 0; step < kHeldSteps; ++step) {
        if (first + step * stride < hidden) write(first + step * stride, held[step], scale);
    }
#pragma unroll 1
    for (int at = first + kHeldSteps * stride; at < hidden; at += stride) {
        float values[N];
        read(at, values);
        write(at, values, scale);
    }
}

template <int N>
__device__ void multiply(float (&values)[N], float scale, const float* weights) {
    float factors[N];
    load_values(weights, factors);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= scale * factors[i];
}

template <typename T, int N>
__global__ void __launch_bounds__(kMostThreads)
    rms_norm_kernel(const float* residual, const int32_t* row_index, Norm norm, int hidden, T* to) {
    let_next_launch_begin();
    if (gridDim.x <= kPrefetchedRows) prefetch_by_block(norm.weight, hidden * static_cast<int>(sizeof(float)));
    wait_for_launches_before();
    const int row = static_cast<int>(blockIdx.x);
    const float* const from = residual + static_cast<int64_t>(row_index != nullptr ? row_index[row] : row) * hidden;
    to += static_cast<int64_t>(row) * hidden;
    norm_row<N>(
        hidden, norm.epsilon, [&](int at, float(&values)[N]) { load_values(from + at, values); },
        [&](int at, float(&values)[N], float scale) {
            multiply(values, scale, norm.weight + at);
            store_values(to + at, values);
        });
}

template <typename T, int N>
__global__ void __launch_bounds__(kMostThreads)
    add_normed_kernel(const float* x, const T* bias, Norm norm, int hidden, float* residual) {
    let_next_launch_begin();
    if (gridDim.x <= kPrefetchedRows) {
        prefetch_by_block(norm.weight, hidden * static_cast<int>(sizeof(float)));
        prefetch_by_block(bias, hidden * static_cast<int>(sizeof(T)));
    }
    wait_for_launches_before();
    x += static_cast<int64_t>(blockIdx.x) * hidden;
    residual += static_cast<int64_t>(blockIdx.x) * hidden;
    const auto read = [&](int at, float(&values)[N]) {
        load_values(x + at, values);
        if (bias == nullptr) return;
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += to_float(bias[at + i]);
    };
    const auto add = [&](int at, const float(&values)[N]) {
        float sums[N];
        load_values(residual + at, sums);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += values[i];
        store_values(residual + at, sums);
    };
    if (norm.weight == nullptr) {
        const int stride = static_cast<int>(blockDim.x) * N;
#pragma unroll 1
        for (int at = static_cast<int>(threadIdx.x) * N; at < hidden; at += stride) {
            float values[N];
            read(at, values);
            add(at, values);
        }
        return;
    }
    norm_row<N>(hidden, norm.epsilon, read, [&](int at, float(&values)[N], float scale) {
        multiply(values, scale, norm.weight + at);
        add(at, values);
    });
}

}  // namespace

template <typename T>
Result<void> rms_norm(const float* residual, const int32_t* row_index, const Norm& norm, int rows, int hidden, T* to,
                      bool early, cudaStream_t stream) {
    const bool vectors = hidden % kVector == 0;
    const int threads = vectors ? threads_for<kVector>(hidden) : threads_for<1>(hidden);
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads)), 0, early};
    const auto kernel = vectors ? rms_norm_kernel<T, kVector> : rms_norm_kernel<T, 1>;
    return launch(kernel, shape, stream, residual, row_index, norm, hidden, to);
}

template <typename T>
Result<void> add_normed(const float* x, const T* bias, const Norm& norm, int rows, int hidden, float* residual,
                        bool early, cudaStream_t stream) {
    const bool vectors = hidden % kVector == 0;
    const int threads = vectors ? threads_for<kVector>(hidden) : threads_for<1>(hidden);
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads)), 0, early};
    const auto kernel = vectors ? add_normed_kernel<T, kVector> : add_normed_kernel<T, 1>;
    return launch(kernel, shape, stream, x, bias, norm, hidden, residual);
}

#define NL_INSTANTIATE(T)                                                                                        \
    template Result<void> rms_norm(const float*, const int32_t*, const Norm&, int, int, T*, bool, cudaStream_t); \
    template Result<void> add_normed(const float*, const T*, const Norm&, int, int, float*, bool, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
