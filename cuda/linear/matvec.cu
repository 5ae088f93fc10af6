// Tiling: a warp computes kOutputs outputs for all kRows rows. Its lanes go along the weight rows in steps of
// 32 * 16 bytes, with kUnroll * kOutputs independent 16-byte loads in flight, and add up in float32; a shuffle
// reduction ends it. No shared memory and no barrier.
//
// Bytes: outputs * size * sizeof(T), each read once and past L1 (__ldcs), so that L1 keeps the activations, which
// every warp reads. Flops: 2 * rows * outputs * size. Bound by memory: each warp of 32 lanes has up to 4 KiB in
// flight. RMSNorm costs no pass of its own: the warp multiplies by the norm's weight on the way, sums the squares
// of the same values, and scales its sums at the end. The fused kernels take 40 to 92 registers and spill none (sm_90a,
// nvcc 13.0).
#include "device/activation.cuh"
#include "device/dependent.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "linear/matvec.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;

// ---- Where x comes from: kNormed tells whether the sums are to be scaled by 1 / rms(x) ----------------------

template <typename T>
struct NormedInput {
    static constexpr bool kNormed = true;
    NormedRows<T> rows;

    __device__ const float* row(int r) const {
        const int index = rows.row_index != nullptr ? rows.row_index[r] : r;
        return rows.residual + static_cast<int64_t>(index) * rows.size;
    }
    // x * norm weight at [at, at + kPack); adds the squares of x.
    __device__ void load(const float* x, int at, float (&values)[kPack<T>], float& squares) const {
#pragma unroll
        for (int i = 0; i < kPack<T>; i += 4) {
            float part[4];
            float weight[4];
            load_pack(x + at + i, part);
            load_pack(rows.norm.weight + at + i, weight);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                squares = fmaf(part[j], part[j], squares);
                values[i + j] = part[j] * weight[j];
            }
        }
    }
    __device__ float load_one(const float* x, int at, float& squares) const {
        squares = fmaf(x[at], x[at], squares);
        return x[at] * rows.norm.weight[at];
    }
    __device__ float scale(float squares) const {
        return rsqrtf(squares / static_cast<float>(rows.size) + rows.norm.epsilon);
    }
};

template <typename T>
struct PlainInput {
    static constexpr bool kNormed = false;
    struct {
        const T* x;
        int rows;
        int size;
    } rows;

    __device__ const T* row(int r) const { return rows.x + static_cast<int64_t>(r) * rows.size; }
    __device__ void load(const T* x, int at, float (&values)[kPack<T>], float&) const { load_pack(x + at, values); }
    __device__ float load_one(const T* x, int at, float&) const { return to_float(x[at]); }
    __device__ float scale(float) const { return 1.0F; }
};

// ---- Where the outputs go: sums[i] belongs to weight row first + i of the warp's kOutputs -------------------

template <typename Output, int kOutputs>
struct StoreOutputs {
    Output* to;
    int outputs;
    int64_t stride;
    __device__ void operator()(int row, int first, const float (&sums)[kOutputs]) const {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) {
            if (first + i < outputs) to[row * stride + first + i] = from_float<Output>(sums[i]);
        }
    }
};

template <int kOutputs>
struct AddOutputs {
    float* to;
    int outputs;
    int64_t stride;
    __device__ void operator()(int row, int first, const float (&sums)[kOutputs]) const {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) {
            if (first + i < outputs) to[row * stride + first + i] += sums[i];
        }
    }
};

template <typename T>
struct GateOutputs {
    T* to;
    int outputs;
    Activation activation;
    __device__ void operator()(int row, int first, const float (&sums)[2]) const {
        to[static_cast<int64_t>(row) * outputs + first] = from_float<T>(activate(activation, sums[0]) * sums[1]);
    }
};

// ---- The product --------------------------------------------------------------------------------------------

template <typename T, int kRows, int kOutputs, typename Input>
struct Product {
    float sums[kRows][kOutputs] = {};
    float squares[kRows] = {};

    __device__ void add(const Input& input, const decltype(input.row(0)) (&x)[kRows], const uint4 (&weights)[kOutputs],
                        int at) {
        float w[kOutputs][kPack<T>];
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) unpack(weights[o], w[o], T());
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float values[kPack<T>];
            input.load(x[r], at, values, squares[r]);
#pragma unroll
            for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
                for (int i = 0; i < kPack<T>; ++i) sums[r][o] = fmaf(w[o][i], values[i], sums[r][o]);
            }
        }
    }
};

// The warp's outputs are the weight rows first = warp * first_step and first + row_step, ...; rows beyond
// num_weight_rows are read as the last one and dropped by Store.
template <typename T, int kRows, int kOutputs, typename Input, typename Store>
__global__ void __launch_bounds__(kWarps* kWarp)
    matvec_kernel(const T* weight, int num_warps, int first_step, int row_step, int num_weight_rows, Input input,
                  Store store) {
    constexpr int kUnroll = (kRows == 1 ? 8 : 4) / kOutputs;
    constexpr int kStep = kWarp * kPack<T>;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
    if (warp >= num_warps) return;
    const int first = warp * first_step;
    const int size = input.rows.size;

    const T* w[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
        w[o] = weight + static_cast<int64_t>(min(first + o * row_step, num_weight_rows - 1)) * size;
    }
    decltype(input.row(0)) x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = input.row(min(r, input.rows.rows - 1));

    Product<T, kRows, kOutputs, Input> product;
    // Rows of another length than whole packs are not 16-byte aligned: those go one by one.
    const int packed = size % kPack<T> == 0 ? size : 0;
    int at = lane * kPack<T>;
    for (; at + (kUnroll - 1) * kStep < packed; at += kUnroll * kStep) {
        uint4 weights[kUnroll][kOutputs];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
            for (int o = 0; o < kOutputs; ++o) {
                weights[u][o] = __ldcs(reinterpret_cast<const uint4*>(w[o] + at + u * kStep));
            }
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) product.add(input, x, weights[u], at + u * kStep);
    }
    for (; at < packed; at += kStep) {
        uint4 weights[kOutputs];
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) weights[o] = __ldcs(reinterpret_cast<const uint4*>(w[o] + at));
        product.add(input, x, weights, at);
    }
    for (int i = packed + lane; i < size; i += kWarp) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const float value = input.load_one(x[r], i, product.squares[r]);
#pragma unroll
            for (int o = 0; o < kOutputs; ++o) {
                product.sums[r][o] = fmaf(to_float(w[o][i]), value, product.sums[r][o]);
            }
        }
    }

    let_next_launch_begin();  // of those that follow, the append to the pages and sampling are early ones
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const float scale = Input::kNormed ? input.scale(warp_sum(product.squares[r])) : 1.0F;
        float sums[kOutputs];
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) sums[o] = warp_sum(product.sums[r][o]) * scale;
        if (lane == 0 && r < input.rows.rows) store(r, first, sums);
    }
}

struct WarpRows {
    int num_warps;
    int first_step;
    int row_step;
    int num_weight_rows;
};

template <typename T, int kOutputs, typename Input, typename Store>
Result<void> launch_matvec(const T* weight, const WarpRows& warps, const Input& input, const Store& store,
                           cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>((warps.num_warps + kWarps - 1) / kWarps);
    const LaunchShape shape{dim3(blocks), dim3(kWarps * kWarp)};
    const auto start = [&](auto* kernel) {
        return launch(kernel, shape, stream, weight, warps.num_warps, warps.first_step, warps.row_step,
                      warps.num_weight_rows, input, store);
    };
    if (input.rows.rows == 1) return start(matvec_kernel<T, 1, kOutputs, Input, Store>);
    if (input.rows.rows == 2) return start(matvec_kernel<T, 2, kOutputs, Input, Store>);
    return start(matvec_kernel<T, kMatvecRows, kOutputs, Input, Store>);
}

// Two outputs a warp share the reading of x; one a warp fills the GPU where outputs are few.
bool fills_with_pairs(int outputs, int multiprocessors) {
    return outputs / 2 >= 16 * multiprocessors;
}

WarpRows singles(int outputs) {
    return {outputs, 1, 1, outputs};
}
WarpRows pairs(int outputs) {
    return {(outputs + 1) / 2, 2, 1, outputs};
}

}  // namespace

template <typename T, typename Output>
Result<void> matvec_normed(const NormedRows<T>& x, const T* weight, int outputs, Output* to, int multiprocessors,
                           cudaStream_t stream) {
    const NormedInput<T> input{x};
    if (fills_with_pairs(outputs, multiprocessors)) {
        const StoreOutputs<Output, 2> store{to, outputs, outputs};
        return launch_matvec<T, 2>(weight, pairs(outputs), input, store, stream);
    }
    const StoreOutputs<Output, 1> store{to, outputs, outputs};
    return launch_matvec<T, 1>(weight, singles(outputs), input, store, stream);
}

template <typename T>
Result<void> matvec_gate_up(const NormedRows<T>& x, const T* gate_up, Activation activation, int outputs, T* to,
                            cudaStream_t stream) {
    const WarpRows gate_and_up{outputs, 1, outputs, 2 * outputs};
    const GateOutputs<T> store{to, outputs, activation};
    return launch_matvec<T, 2>(gate_up, gate_and_up, NormedInput<T>{x}, store, stream);
}

template <typename T, typename Output>
Result<void> matvec(const T* x, const T* weight, int rows, int size, int outputs, Output* to, int64_t stride,
                    cudaStream_t stream) {
    const StoreOutputs<Output, 1> store{to, outputs, stride};
    return launch_matvec<T, 1>(weight, singles(outputs), PlainInput<T>{{x, rows, size}}, store, stream);
}

template <typename T>
Result<void> matvec_add(const T* x, const T* weight, int rows, int size, int outputs, float* residual, int64_t stride,
                        int multiprocessors, cudaStream_t stream) {
    const PlainInput<T> input{{x, rows, size}};
    if (fills_with_pairs(outputs, multiprocessors)) {
        return launch_matvec<T, 2>(weight, pairs(outputs), input, AddOutputs<2>{residual, outputs, stride}, stream);
    }
    return launch_matvec<T, 1>(weight, singles(outputs), input, AddOutputs<1>{residual, outputs, stride}, stream);
}

#define NL_INSTANTIATE_OUTPUT(T, Output)                                                                  \
    template Result<void> matvec_normed(const NormedRows<T>&, const T*, int, Output*, int, cudaStream_t); \
    template Result<void> matvec(const T*, const T*, int, int, int, Output*, int64_t, cudaStream_t);
#define NL_INSTANTIATE(T)                                                                                    \
    template Result<void> matvec_gate_up(const NormedRows<T>&, const T*, Activation, int, T*, cudaStream_t); \
    template Result<void> matvec_add(const T*, const T*, int, int, int, float*, int64_t, int, cudaStream_t);
NL_INSTANTIATE_OUTPUT(float, float)
NL_INSTANTIATE_OUTPUT(__half, float)
NL_INSTANTIATE_OUTPUT(__half, __half)
NL_INSTANTIATE_OUTPUT(__nv_bfloat16, float)
NL_INSTANTIATE_OUTPUT(__nv_bfloat16, __nv_bfloat16)
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
