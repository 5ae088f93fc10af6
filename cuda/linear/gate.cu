// One thread for each output element, a row of the grid for each row. Bytes: 4 size to read and 2 size to write a
// row; bound by memory.
#include "device/activation.cuh"
#include "device/number.cuh"
#include "linear/gate.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    gate_kernel(const T* gate_up, const T* bias, Activation activation, int size, T* to) {
    const int i = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
    if (i >= size) return;
    const T* row = gate_up + static_cast<int64_t>(blockIdx.x) * 2 * size;
    const auto value = [&](int at) { return to_float(row[at]) + (bias != nullptr ? to_float(bias[at]) : 0.0F); };
    to[static_cast<int64_t>(blockIdx.x) * size + i] = from_float<T>(activate(activation, value(i)) * value(size + i));
}

}  // namespace

template <typename T>
Result<void> gate(const T* gate_up, const T* bias, Activation activation, int rows, int size, T* to,
                  cudaStream_t stream) {
    // Rows go along x, whose limit is 2^31 - 1; that of y is 65535.
    const auto blocks = static_cast<unsigned>((size + kThreads - 1) / kThreads);
    const LaunchShape shape{dim3(static_cast<unsigned>(rows), blocks), dim3(kThreads)};
    return launch(gate_kernel<T>, shape, stream, gate_up, bias, activation, size, to);
}

#define NL_INSTANTIATE(T) template Result<void> gate(const T*, const T*, Activation, int, int, T*, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
