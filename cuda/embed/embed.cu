// One block for each row, its threads over the row's elements. Bytes: 2 hidden to read and 4 hidden to write a
// row; with few rows the launch itself is what it costs.
#include "device/number.cuh"
#include "embed/embed.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    embed_kernel(const T* table, const int32_t* tokens, float factor, int hidden, float* residual) {
    const T* from = table + static_cast<int64_t>(tokens[blockIdx.x]) * hidden;
    float* to = residual + static_cast<int64_t>(blockIdx.x) * hidden;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) to[i] = to_float(from[i]) * factor;
}

}  // namespace

template <typename T>
Result<void> embed(const T* table, const int32_t* tokens, float factor, int rows, int hidden, float* residual,
                   cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads)};
    return launch(embed_kernel<T>, shape, stream, table, tokens, factor, hidden, residual);
}

template Result<void> embed(const float*, const int32_t*, float, int, int, float*, cudaStream_t);
template Result<void> embed(const __half*, const int32_t*, float, int, int, float*, cudaStream_t);
template Result<void> embed(const __nv_bfloat16*, const int32_t*, float, int, int, float*, cudaStream_t);

}  // namespace nanolith::cuda
