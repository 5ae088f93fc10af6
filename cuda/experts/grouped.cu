// Of float32, and of sizes that the tensor cores' kernels (grouped_wgmma.cu, grouped_mma.cu) don't take.
//
// Tiling: the grid goes over the outputs, four to a block and one to a warp, and over the experts; a warp computes its
// output for its expert's rows, four at a time, with its lanes along the weight row in steps of 16 bytes.
//
// Bytes: the weights of the chosen experts once from memory and then from L2 for each further four rows. Flops:
// 2 * pairs * outputs * size. Bound by memory for few rows, and by L2 for many.
#include <type_traits>

#include "device/number.cuh"
#include "device/reduce.cuh"
#include "experts/chosen.cuh"
#include "experts/grouped.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kRows = 4;

template <typename T>
__device__ void add_products(const GroupedProduct<T>& product, const T* weight, const T* const (&x)[kRows], int lane,
                             float (&sums)[kRows]) {
    // Rows of another length than whole packs are not 16-byte aligned: those go one by one.
    const int packed = product.size % kPack<T> == 0 ? product.size : 0;
    for (int at = lane * kPack<T>; at < packed; at += kWarp * kPack<T>) {
        float w[kPack<T>];
        load_pack(weight + at, w);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float values[kPack<T>];
            load_pack(x[r] + at, values);
#pragma unroll
            for (int i = 0; i < kPack<T>; ++i) sums[r] = fmaf(w[i], values[i], sums[r]);
        }
    }
    for (int at = packed + lane; at < product.size; at += kWarp) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = fmaf(to_float(weight[at]), to_float(x[r][at]), sums[r]);
    }
}

template <typename T, typename Output>
__global__ void __launch_bounds__(kWarps* kWarp) grouped_kernel(GroupedProduct<T> product, Output* y) {
    const int expert = chosen_expert(product.begins, product.experts, static_cast<int>(blockIdx.y));
    if (expert < 0) return;
    const int begin = product.begins[expert];
    const int end = product.begins[expert + 1];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int output = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
    if (output >= product.outputs) return;
    const T* const weight = product.weight + (static_cast<int64_t>(expert) * product.outputs + output) * product.size;

    for (int first = begin; first < end; first += kRows) {
        const T* x[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const int pair = min(first + r, end - 1);
            const int row = product.pairs != nullptr ? product.pairs[pair] / product.top_k : pair;
            x[r] = product.x + static_cast<int64_t>(row) * product.size;
        }
        float sums[kRows] = {};
        add_products(product, weight, x, lane, sums);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const float sum = warp_sum(sums[r]);
            if (lane == 0 && first + r < end)
                y[static_cast<int64_t>(first + r) * product.outputs + output] = from_float<Output>(sum);
        }
    }
}

}  // namespace

template <typename T, typename Output>
Result<void> multiply_grouped(const GroupedProduct<T>& product, Output* y, cudaStream_t stream) {
    if constexpr (!std::is_same_v<T, float>) {
        if (product.hopper && product.size % 8 == 0 && product.outputs % 8 == 0)
            return multiply_grouped_wgmma(product, y, stream);
        if (product.size % 32 == 0) return multiply_grouped_mma(product, y, stream);
    }
    const auto blocks = static_cast<unsigned>((product.outputs + kWarps - 1) / kWarps);
    const LaunchShape shape{dim3(blocks, static_cast<unsigned>(product.most_chosen())), dim3(kWarps * kWarp)};
    return launch(grouped_kernel<T, Output>, shape, stream, product, y);
}

#define NL_INSTANTIATE(T, Output) \
    template Result<void> multiply_grouped(const GroupedProduct<T>&, Output*, cudaStream_t);
NL_INSTANTIATE(float, float)
NL_INSTANTIATE(__half, __half)
NL_INSTANTIATE(__half, float)
NL_INSTANTIATE(__nv_bfloat16, __nv_bfloat16)
NL_INSTANTIATE(__nv_bfloat16, float)

}  // namespace nanolith::cuda
