// A thread for 16 bytes of output, or for one element where rows are no multiple of that; a row of the grid for each
// row. Bytes: 4 size to read and 2 size to write a row; bound by memory.
#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "device/number.cuh"
#include "linear/gate.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 128;

// N: the elements of a thread.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    gate_kernel(const T* gate_up, const T* bias, Activation activation, int size, T* to) {
    wait_for_launches_before();
    const int first = (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * N;
    if (first >= size) return;
    const T* const row = gate_up + static_cast<int64_t>(blockIdx.x) * 2 * size;
    float gates[N];
    float ups[N];
    load_values(row + first, gates);
    load_values(row + size + first, ups);
    if (bias != nullptr) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            gates[i] += to_float(bias[first + i]);
            ups[i] += to_float(bias[size + first + i]);
        }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) gates[i] = activate(activation, gates[i]) * ups[i];
    store_values(to + static_cast<int64_t>(blockIdx.x) * size + first, gates);
}

template <typename T, int N>
Result<void> launch_gate(const T* gate_up, const T* bias, Activation activation, int rows, int size, T* to, bool early,
                         cudaStream_t stream) {
    // Rows go along x, whose limit is 2^31 - 1; that of y is 65535.
    const auto blocks = static_cast<unsigned>((size / N + kThreads - 1) / kThreads);
    const LaunchShape shape{dim3(static_cast<unsigned>(rows), blocks), dim3(kThreads), 0, early};
    return launch(gate_kernel<T, N>, shape, stream, gate_up, bias, activation, size, to);
}

}  // namespace

template <typename T>
Result<void> gate(const T* gate_up, const T* bias, Activation activation, int rows, int size, T* to, bool early,
                  cudaStream_t stream) {
    if (size % kPack<T> == 0) return launch_gate<T, kPack<T>>(gate_up, bias, activation, rows, size, to, early, stream);
    return launch_gate<T, 1>(gate_up, bias, activation, rows, size, to, early, stream);
}

#define NL_INSTANTIATE(T) template Result<void> gate(const T*, const T*, Activation, int, int, T*, bool, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
