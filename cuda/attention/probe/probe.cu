// Four kernels. The first gives the log-sum-exp of each query vector's scores within each page; the second sums these
// up to each vector's total; the third computes the scores once more and sums up, for each token and KV head, the
// shares that the vectors' totals have of it; the fourth adds up the heads.
//
// Tiling of the first and the third: a block for each page and KV head, four warps. Tiles of 64 tokens of K lie in
// shared memory as float32, rows padded by 16 bytes against bank conflicts; each warp takes four query vectors at a
// time, rotated into shared memory of its own, and a lane computes their products with two tokens.
//
// Bytes: K twice, the queries twice for each page (from the second-level cache), a float32 for each page and vector and
// one for each token and KV head. Scores that were kept instead would be a float32 for each token and vector.
// Flops: 4 * head_dim a vector and token on the CUDA cores, which bound it, together with the shared-memory reads (six
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

// What a block of the first and the third kernel works on: a page, and a KV head of it.
template <typename T, typename P>
struct PageBlock {
    const ProbeArguments<T>& a;
    const HeadShape& shape;
    ProbePage probed;
    int kv_head;
    int group;
    int vectors;
    const P* page;
    float* keys;     // of the tile
    float* queries;  // of the warp

    __device__ PageBlock(const ProbeArguments<T>& arguments, const HeadShape& heads) : a(arguments), shape(heads) {
        probed = a.probed[blockIdx.x];
        kv_head = static_cast<int>(blockIdx.y);
        group = shape.num_heads / shape.num_kv_heads;
        vectors = a.num_rows * group;
        page = static_cast<const P*>(a.pages) + probed.page * shape.page_elements() +
               static_cast<int64_t>(kv_head) * shape.page_size * shape.head_dim;
        keys = reinterpret_cast<float*>(dynamic_shared());
        queries = keys + kTokens * key_stride(shape.head_dim) +
                  static_cast<int>(threadIdx.x) / kWarp * kPerWarp * shape.head_dim;
    }

    // Calls take(vector, score0, score1) for each query vector of the warp, with the scores of tokens `first` + lane
    // and `first` + 32 + lane, which are -infinity where the vector does not see the token. All threads of the block
    // call it.
    template <typename Take>
    __device__ void score_tile(int first, Take take) const {
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
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
                take(vector + j, score0, score1);
            }
        }
    }
};

template <typename T, typename P>
__global__ void __launch_bounds__(kThreads) page_lse_kernel(ProbeArguments<T> a, HeadShape shape) {
    const PageBlock<T, P> block(a, shape);
    float* const lse = a.lse + (static_cast<int64_t>(blockIdx.x) * shape.num_kv_heads + block.kv_head) * block.vectors;
    for (int first = block.probed.first_token; first < block.probed.end_token; first += kTokens) {
        block.score_tile(first, [&](int vector, float score0, float score1) {
            const float of_tile = warp_lse(score0, score1);
            if (threadIdx.x % kWarp != 0) return;
            lse[vector] = first == block.probed.first_token ? of_tile : add_base2(lse[vector], of_tile);
        });
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

// a.shares[head][token] of the block's page and KV head.
template <typename T, typename P>
__global__ void __launch_bounds__(kThreads) share_kernel(ProbeArguments<T> a, HeadShape shape) {
    __shared__ float of_warps[kWarps][kTokens];
    const PageBlock<T, P> block(a, shape);
    const int thread = static_cast<int>(threadIdx.x);
    const float* const totals = a.totals + static_cast<int64_t>(block.kv_head) * block.vectors;
    float* const shares = a.shares + static_cast<int64_t>(block.kv_head) * a.num_tokens + block.probed.first_weight;
    for (int first = block.probed.first_token; first < block.probed.end_token; first += kTokens) {
        float sum0 = 0;
        float sum1 = 0;
        block.score_tile(first, [&](int vector, float score0, float score1) {
            sum0 += exp2f(score0 - totals[vector]);
            sum1 += exp2f(score1 - totals[vector]);
        });
        of_warps[thread / kWarp][thread % kWarp] = sum0;
        of_warps[thread / kWarp][thread % kWarp + kWarp] = sum1;
        __syncthreads();
        if (thread >= kTokens || first + thread >= block.probed.end_token) continue;
        float sum = 0;
        for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[warp][thread];
        shares[first - block.probed.first_token + thread] = sum;
    }
}

// A thread for each token.
__global__ void __launch_bounds__(kShareThreads)
    add_heads_kernel(const float* shares, int tokens, int heads, float* weights) {
    const int token = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (token >= tokens) return;
    float sum = 0;
    for (int head = 0; head < heads; ++head) sum += shares[static_cast<int64_t>(head) * tokens + token];
    weights[token] += sum;
}

template <typename T, typename P>
Result<void> launch_all(const ProbeArguments<T>& a, const HeadShape& shape, cudaStream_t stream) {
    const auto blocks_of = [](int threads) {
        return dim3(static_cast<unsigned>((threads + kShareThreads - 1) / kShareThreads));
    };
    const int vectors = shape.num_heads * a.num_rows;
    LaunchShape of_pages{dim3(static_cast<unsigned>(a.num_pages), static_cast<unsigned>(shape.num_kv_heads)),
                         dim3(kThreads)};
    of_pages.shared_bytes = static_cast<size_t>(shared_floats(shape.head_dim)) * sizeof(float);
    NL_TRY(launch(page_lse_kernel<T, P>, of_pages, stream, a, shape));
    NL_TRY(
        launch(total_kernel, {blocks_of(vectors), dim3(kShareThreads)}, stream, a.lse, a.num_pages, vectors, a.totals));
    NL_TRY(launch(share_kernel<T, P>, of_pages, stream, a, shape));
    return launch(add_heads_kernel, {blocks_of(a.num_tokens), dim3(kShareThreads)}, stream, a.shares, a.num_tokens,
                  shape.num_kv_heads, a.weights);
}

}  // namespace

template <typename T>
Result<void> add_token_weights(const ProbeArguments<T>& arguments, const HeadShape& shape, cudaStream_t stream) {
    if (arguments.num_pages == 0) return {};
    if constexpr (sizeof(T) == 2) {
        if (arguments.fp8) return launch_all<T, __nv_fp8_e4m3>(arguments, shape, stream);
    }
    return launch_all<T, T>(arguments, shape, stream);
}

template Result<void> add_token_weights(const ProbeArguments<float>&, const HeadShape&, cudaStream_t);
template Result<void> add_token_weights(const ProbeArguments<__half>&, const HeadShape&, cudaStream_t);
template Result<void> add_token_weights(const ProbeArguments<__nv_bfloat16>&, const HeadShape&, cudaStream_t);

}  // namespace nanolith::cuda
