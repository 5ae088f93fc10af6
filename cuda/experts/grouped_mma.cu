// Tiling: a block takes 32 outputs of one expert, and its pairs 32 at a time (8 where there are no more). Four warps
// share the length of the sum, in steps of 32 elements: each lane reads 16 bytes of each of its rows, so that the
// elements of a product come in another order, the same on both sides. The warps' sums meet in shared memory.
//
// Bytes: the weights of the chosen experts once from memory and again from L2 for each further 32 pairs; every pair's
// row once for each 32 outputs from L2. Flops: 2 * pairs * outputs * size, in eights of pairs. Bound by memory up to
// some 60 pairs an expert, and by the rows' way from L2 for more.
#include "device/mma.cuh"
#include "device/number.cuh"
#include "experts/chosen.cuh"
#include "experts/grouped.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kOutputs = 32;
constexpr int kPairs = 32;
constexpr int kStep = 32;               // elements of the sum
constexpr int kStride = kOutputs + 4;   // no bank conflicts
constexpr int kHalves = kOutputs / 16;  // products' rows
constexpr int kEights = kPairs / 8;     // products' columns

struct Sums {
    float values[kWarps][kPairs][kStride];
};

// The warp's part of the sums of 32 outputs and 8 * kColumns pairs.
template <int kColumns, typename T>
__device__ __forceinline__ void add_products(const GroupedProduct<T>& product, const T* weight, int outputs, int first,
                                             int end, Sums& sums) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
    const int c = static_cast<int>(threadIdx.x) % 4;
    const T* rows[2 * kHalves];
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
        rows[i] = weight + static_cast<int64_t>(min(8 * i + g, outputs - 1)) * product.size + 8 * c;
    }
    const T* columns[kColumns];
#pragma unroll
    for (int t = 0; t < kColumns; ++t) {
        const int pair = min(first + 8 * t + g, end - 1);
        const int row = product.pairs != nullptr ? product.pairs[pair] / product.top_k : pair;
        columns[t] = product.x + static_cast<int64_t>(row) * product.size + 8 * c;
    }
    float total[kHalves][kColumns][4] = {};
#pragma unroll kColumns == 1 ? 4 : 2
    for (int at = warp * kStep; at < product.size; at += kWarps * kStep) {
        uint4 a[2 * kHalves];
        uint4 b[kColumns];
#pragma unroll
        for (int i = 0; i < 2 * kHalves; ++i) a[i] = __ldg(reinterpret_cast<const uint4*>(rows[i] + at));
#pragma unroll
        for (int t = 0; t < kColumns; ++t) b[t] = __ldg(reinterpret_cast<const uint4*>(columns[t] + at));
#pragma unroll
        for (int t = 0; t < kColumns; ++t) {
#pragma unroll
            for (int h = 0; h < kHalves; ++h) {
                const uint4 low = a[2 * h];
                const uint4 high = a[2 * h + 1];
                multiply_add(total[h][t], {low.x, high.x, low.y, high.y}, b[t].x, b[t].y, T());
                multiply_add(total[h][t], {low.z, high.z, low.w, high.w}, b[t].z, b[t].w, T());
            }
        }
    }
#pragma unroll
    for (int t = 0; t < kColumns; ++t) {
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums.values[warp][8 * t + 2 * c + i % 2][16 * h + 8 * (i / 2) + g] = total[h][t][i];
            }
        }
    }
}

template <typename T, typename Output>
__global__ void __launch_bounds__(kWarps* kWarp) grouped_mma_kernel(GroupedProduct<T> product, Output* y) {
    __shared__ Sums sums;
    const int expert = chosen_expert(product.begins, product.experts, static_cast<int>(blockIdx.y));
    if (expert < 0) return;
    const int end = product.begins[expert + 1];
    const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
    const int outputs = min(product.outputs - first_output, kOutputs);
    const T* const weight =
        product.weight + (static_cast<int64_t>(expert) * product.outputs + first_output) * product.size;
    for (int first = product.begins[expert]; first < end; first += kPairs) {
        if (end - first <= 8) {
            add_products<1>(product, weight, outputs, first, end, sums);
        } else {
            add_products<kEights>(product, weight, outputs, first, end, sums);
        }
        __syncthreads();
        const int count = min(end - first, kPairs) * kOutputs;
        for (int i = static_cast<int>(threadIdx.x); i < count; i += kWarps * kWarp) {
            const int pair = i / kOutputs;
            const int output = i % kOutputs;
            float sum = 0;
#pragma unroll
            for (int w = 0; w < kWarps; ++w) sum += sums.values[w][pair][output];
            if (output >= outputs) continue;
            y[static_cast<int64_t>(first + pair) * product.outputs + first_output + output] = from_float<Output>(sum);
        }
        __syncthreads();  // all have read the sums
    }
}

}  // namespace

template <typename T, typename Output>
Result<void> multiply_grouped_mma(const GroupedProduct<T>& product, Output* y, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>((product.outputs + kOutputs - 1) / kOutputs),
                    static_cast<unsigned>(product.most_chosen()));
    return launch(grouped_mma_kernel<T, Output>, LaunchShape{grid, dim3(kWarps * kWarp)}, stream, product, y);
}

#define NL_INSTANTIATE(T, Output) \
    template Result<void> multiply_grouped_mma(const GroupedProduct<T>&, Output*, cudaStream_t);
NL_INSTANTIATE(__half, __half)
NL_INSTANTIATE(__half, float)
NL_INSTANTIATE(__nv_bfloat16, __nv_bfloat16)
NL_INSTANTIATE(__nv_bfloat16, float)

}  // namespace nanolith::cuda
