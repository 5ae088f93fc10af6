// One block for each row, its threads over the row's elements; all threads of the grid over the changes of the page
// table, of which a decode step has few. Bytes: 2 hidden to read and 4 hidden to write a row; with few rows the launch
// itself is what it costs.
#include "device/number.cuh"
#include "embed/embed.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    begin_step_kernel(const T* table, const StepHead* head, const int32_t* tokens, const int32_t* drawn,
                      const PageChange* changes, int32_t* page_table, float factor, int hidden, float* residual) {
    const int step = static_cast<int>(gridDim.x) * kThreads;
    const int num_changes = head->num_changes;
    for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); i < num_changes; i += step) {
        page_table[changes[i].entry] = changes[i].page;
    }
    const int32_t token = tokens[blockIdx.x];
    const T* from = table + static_cast<int64_t>(token < 0 ? drawn[-1 - token] : token) * hidden;
    float* to = residual + static_cast<int64_t>(blockIdx.x) * hidden;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) to[i] = to_float(from[i]) * factor;
}

}  // namespace

template <typename T>
Result<void> begin_step(const T* table, const BatchView& batch, const int32_t* drawn, int32_t* page_table, float factor,
                        int rows, int hidden, float* residual, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads)};
    return launch(begin_step_kernel<T>, shape, stream, table, batch.head, batch.tokens, drawn, batch.changes,
                  page_table, factor, hidden, residual);
}

template Result<void> begin_step(const float*, const BatchView&, const int32_t*, int32_t*, float, int, int, float*,
                                 cudaStream_t);
template Result<void> begin_step(const __half*, const BatchView&, const int32_t*, int32_t*, float, int, int, float*,
                                 cudaStream_t);
template Result<void> begin_step(const __nv_bfloat16*, const BatchView&, const int32_t*, int32_t*, float, int, int,
                                 float*, cudaStream_t);

}  // namespace nanolith::cuda
