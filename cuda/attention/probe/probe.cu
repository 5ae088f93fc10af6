// Three kernels. The first gives the log-sum-exp of each query vector's scores within each page; the second sums these
// up to each vector's total; the third adds up the vectors' shares of each page.
//
// Tiling of the first: a block for each page and KV head, four warps. Tiles of 64 tokens of K lie in shared memory as
// float32, rows padded by 16 bytes against bank conflicts; each warp takes four query vectors at a time, rotated into
// shared memory of its own, and a lane computes their products with two tokens.
//
// Bytes: K once, the queries once for each page (from the second-level cache), a float32 for each page and vector.
// Flops: 2 * head_dim a vector and token on the CUDA cores, which bound it, together with the shared-memory reads (six
// of 16 bytes for 32 multiply-adds). Probes are of some 64 rows and some layers, so that tensor cores would save little
// of a first token's time.
#include "attention/probe/probe.h"

#include <cuda_fp8.h>

#include <type_traits>

#include "attention/common/scores.cuh"
#include "device/dynamic_shared.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kPerWarp = 4;  // query vectors of a warp at a time
constexpr int kTokens = 64;  // of a tile, two of a lane
constexpr int kShareThreads = 256;

__device__ inline float key_to_float(__nv_fp8_e4m3 key) {
    return static_cast<float>(key);
}
template <typename T>
__device__ float key_to_float(T key) {
    return to_float(key);
}

// Offsets in the block's shared memory, in floats.
__host__ __device__ inline int key_stride(int head_dim) {
    return head_dim + 4;
}
__host__ __device__ inline int shared_floats(int head_dim) {
    return kTokens * key_stride(head_dim) + kWarps * kPerWarp * head_dim;
}

// Keys [first, end) of the tile; zeros after them.
template <typename P>
__device__ void load_keys(const P* page, int first, int end, int page_size, int head_dim, float* to) {
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * head_dim; i += kThreads) {
        const int token = first + i / head_dim;
        const int dim = i % head_dim;
        const float key = token < end ? key_to_float(page[token % page_size * head_dim + dim]) : 0.0F;
        to[i / head_dim * key_stride(head_dim) + dim] = key;
    }
}

// Query vectors [first, first + kPerWarp) of the KV head, rotated for a segment at `base`; zeros where there are none.
template <typename T>
__device__ void rotate_vectors(const ProbeArguments<T>& a, const HeadShape& shape, int kv_head, int first, int base,
                               float* to) {
    const int half = shape.head_dim / 2;
    const int group = shape.num_heads / shape.num_kv_heads;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kPerWarp * half; i += kWarp) {
        const int vector = first + i / half;
        const int pair = i % half;
        float2 rotated = make_float2(0, 0);
        if (vector < a.num_rows * group) {
            const int row = vector / group;
            const T* const q = a.queries + a.query_layout.offset(a.first_row + row, kv_head * group + vector % group);
            const int distance = max(0, a.first_position + row - base);
            const float2 rotation =
                a.rope == nullptr ? make_float2(1, 0) : a.rope[static_cast<int64_t>(distance) * half + pair];
            const float low = to_float(q[pair]);
            const float high = to_float(q[pair + half]);
            rotated = make_float2(low * rotation.x - high * rotation.y, high * rotation.x + low * rotation.y);
        }
        to[i / half * shape.head_dim + pair] = rotated.x;
        to[i / half * shape.head_dim + pair + half] = rotated.y;
    }
}

// Products of kPerWarp vectors with the lane's two keys.
__device__ void multiply(const float* queries, const float* keys, int head_dim, float (&products)[kPerWarp][2]) {
#pragma unroll
    for (auto& of_vector : products) of_vector[0] = of_vector[1] = 0;
    const float* const second = keys + kWarp * key_stride(head_dim);
    for (int d = 0; d < head_dim; d += 4) {
        const float4 k0 = *reinterpret_cast<const float4*>(keys + d);
        const float4 k1 = *reinterpret_cast<const float4*>(second + d);
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) {
            const float4 q = *reinterpret_cast<const float4*>(queries + j * head_dim + d);
            products[j][0] = fmaf(q.w, k0.w, fmaf(q.z, k0.z, fmaf(q.y, k0.y, fmaf(q.x, k0.x, products[j][0]))));
            products[j][1] = fmaf(q.w, k1.w, fmaf(q.z, k1.z, fmaf(q.y, k1.y, fmaf(q.x, k1.x, products[j][1]))));
        }
    }
}

// log2(2^a + 2^b); -infinity of two of these.
__device__ inline float add_base2(float a, float b) {
    const float highest = fmaxf(a, b);
    return highest == -INFINITY ? highest : highest + log2f(exp2f(a - highest) + exp2f(b - highest));
}

// The log-sum-exp to base 2 of the lanes' two scores each.
__device__ inline float warp_lse(float first, float second) {
    const float highest = warp_max(fmaxf(first, second));
    const float reference = highest == -INFINITY ? 0.0F : highest;
    const float sum = warp_sum(exp2f(first - reference) + exp2f(second - reference));
    return sum == 0 ? -INFINITY : highest + log2f(sum);
}

template <typename T, typename P>
__global__ void __launch_bounds__(kThreads) page_lse_kernel(ProbeArguments<T> a, HeadShape shape) {
    auto* const keys = reinterpret_cast<float*>(dynamic_shared());
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float* const queries = keys + kTokens * key_stride(shape.head_dim) + warp * kPerWarp * shape.head_dim;
    const ProbePage probed = a.probed[blockIdx.x];
    const int kv_head = static_cast<int>(blockIdx.y);
    const int group = shape.num_heads / shape.num_kv_heads;
    const int vectors = a.num_rows * group;
    const P* const page = static_cast<const P*>(a.pages) + probed.page * shape.page_elements() +
                          static_cast<int64_t>(kv_head) * shape.page_size * shape.head_dim;
    float* const lse = a.lse + (static_cast<int64_t>(blockIdx.x) * shape.num_kv_heads + kv_head) * vectors;
    for (int first = probed.first_token; first < probed.end_token; first += kTokens) {
        __syncthreads();
        load_keys(page, first, probed.end_token, shape.page_size, shape.head_dim, keys);
        __syncthreads();
        for (int vector = warp * kPerWarp; vector < vectors; vector += kWarps * kPerWarp) {
            rotate_vectors(a, shape, kv_head, vector, probed.base, queries);
            __syncwarp();
            float products[kPerWarp][2];
            multiply(queries, keys + lane * key_stride(shape.head_dim), shape.head_dim, products);
            __syncwarp();
            for (int j = 0; j < kPerWarp && vector + j < vectors; ++j) {
                const int position = a.first_position + (vector + j) / group - probed.base;
                const int end = causal_end(position, probed.end_token);
                const float score0 = first + lane < end ? score<ExactMath>(a.rule, products[j][0]) : -INFINITY;
                const float score1 = first + kWarp + lane < end ? score<ExactMath>(a.rule, products[j][1]) : -INFINITY;
                const float of_tile = warp_lse(score0, score1);
                if (lane != 0) continue;
                lse[vector + j] = first == probed.first_token ? of_tile : add_base2(lse[vector + j], of_tile);
            }
        }
    }
}

// A thread for each vector of each KV head: the log-sum-exp over all pages.
__global__ void __launch_bounds__(kShareThreads) total_kernel(const float* lse, int pages, int vectors, float* totals) {
    const int vector = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (vector >= vectors) return;
    float highest = -INFINITY;
    for (int page = 0; page < pages; ++page)
        highest = fmaxf(highest, lse[static_cast<int64_t>(page) * vectors + vector]);
    float sum = 0;
    for (int page = 0; page < pages; ++page)
        sum += highest == -INFINITY ? 0.0F : exp2f(lse[static_cast<int64_t>(page) * vectors + vector] - highest);
    totals[vector] = sum == 0 ? 0.0F : highest + log2f(sum);
}

// A block for each page.
__global__ void __launch_bounds__(kShareThreads)
    share_kernel(const float* lse, const float* totals, int vectors, float* weights) {
    const float* const of_page = lse + static_cast<int64_t>(blockIdx.x) * vectors;
    float sum = 0;
    for (int vector = static_cast<int>(threadIdx.x); vector < vectors; vector += kShareThreads)
        sum += exp2f(of_page[vector] - totals[vector]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) weights[blockIdx.x] += sum;
}

template <typename T, typename P>
Result<void> launch_all(const ProbeArguments<T>& a, const HeadShape& shape, cudaStream_t stream) {
    const auto pages = static_cast<unsigned>(a.num_pages);
    const int vectors = shape.num_heads * a.num_rows;
    LaunchShape lse{dim3(pages, static_cast<unsigned>(shape.num_kv_heads)), dim3(kThreads)};
    lse.shared_bytes = static_cast<size_t>(shared_floats(shape.head_dim)) * sizeof(float);
    NL_TRY(launch(page_lse_kernel<T, P>, lse, stream, a, shape));
    const auto blocks = static_cast<unsigned>((vectors + kShareThreads - 1) / kShareThreads);
    NL_TRY(launch(total_kernel, {dim3(blocks), dim3(kShareThreads)}, stream, a.lse, a.num_pages, vectors, a.totals));
    return launch(share_kernel, {dim3(pages), dim3(kShareThreads)}, stream, a.lse, a.totals, vectors, a.weights);
}

}  // namespace

template <typename T>
Result<void> add_page_weights(const ProbeArguments<T>& arguments, const HeadShape& shape, cudaStream_t stream) {
    if (arguments.num_pages == 0) return {};
    if constexpr (sizeof(T) == 2) {
        if (arguments.fp8) return launch_all<T, __nv_fp8_e4m3>(arguments, shape, stream);
    }
    return launch_all<T, T>(arguments, shape, stream);
}

template Result<void> add_page_weights(const ProbeArguments<float>&, const HeadShape&, cudaStream_t);
template Result<void> add_page_weights(const ProbeArguments<__half>&, const HeadShape&, cudaStream_t);
template Result<void> add_page_weights(const ProbeArguments<__nv_bfloat16>&, const HeadShape&, cudaStream_t);

}  // namespace nanolith::cuda
