// Four kernels. The first gives the log-sum-exp of each query vector's scores within each page; the second sums these
// up to each vector's total; the third computes the scores once more and sums up, for each token and KV head, the
// shares that the vectors' totals have of it; the fourth adds up the heads.
//
// Tiling of the first and the third: a block for each page and KV head, four warps. Tiles of 64 tokens of K lie in
// shared memory, rows padded by 16 bytes against bank conflicts. Each warp takes 16 query vectors at a time, rotates
// them into shared memory of its own and multiplies them by the tile: with mma.sync where elements have 16 bits (keys
// in fp8 are widened to these), on the CUDA cores where they are float32.
//
// Bytes: K twice, the queries and their rotations twice for each page (from the second-level cache), a float32 for each
// page and vector and one for each token and KV head. Scores that were kept instead would be a float32 for each token
// and vector.
// Flops: 4 * head_dim a vector and token. By estimate, not measured apart: loads of operands from shared memory bound
// the products (five loads of 512 bytes for eight mma), and rotating the queries takes about as long.
#include "attention/probe/probe.h"

#include <cuda_fp8.h>

#include <type_traits>

#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "device/dynamic_shared.cuh"
#include "device/fragment.cuh"
#include "device/mma.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kVectors = 16;  // query vectors of a warp at a time
constexpr int kTokens = 64;   // of a tile
constexpr int kShareThreads = 256;

template <typename T>
using MathOf = std::conditional_t<sizeof(T) == 2, FastMath, ExactMath>;

// kCount elements that are read and written together, up to 16 bytes an instruction. Their address is a multiple of as
// many bytes as they have, or of 16.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Together {
    T values[kCount];
};
template <int kCount, typename T>
__device__ inline Together<T, kCount> load_together(const T* from) {
    return *reinterpret_cast<const Together<T, kCount>*>(from);
}
template <typename T, int kCount>
__device__ inline void store_together(T* to, const Together<T, kCount>& elements) {
    *reinterpret_cast<Together<T, kCount>*>(to) = elements;
}

// Vectors in shared memory have zeros up to the next multiple of 16 elements, which is what mma.sync takes.
__host__ __device__ inline int padded_dim(int head_dim) {
    return (head_dim + 15) / 16 * 16;
}
// The distance from one vector in shared memory to the next, in elements.
template <typename T>
__host__ __device__ int stride_of(int head_dim) {
    return padded_dim(head_dim) + 16 / static_cast<int>(sizeof(T));
}
template <typename T>
size_t shared_bytes(int head_dim) {
    return static_cast<size_t>(kTokens + kWarps * kVectors) * static_cast<size_t>(stride_of<T>(head_dim)) * sizeof(T);
}

// Keys [first, end) of the tile; zeros after them.
template <typename T, typename P>
__device__ void load_keys(const P* page, int first, int end, int page_size, int head_dim, T* to) {
    const int eights = padded_dim(head_dim) / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * eights; i += kThreads) {
        const int token = first + i / eights;
        const int dim = i % eights * 8;
        Together<T, 8> keys{};
        if (token < end && dim < head_dim) {
            const Together<P, 8> stored = load_together<8>(page + token % page_size * head_dim + dim);
            if constexpr (std::is_same_v<T, P>) {
                keys = stored;
            } else {
#pragma unroll
                for (int j = 0; j < 8; ++j) keys.values[j] = from_float<T>(static_cast<float>(stored.values[j]));
            }
        }
        store_together(to + i / eights * stride_of<T>(head_dim) + dim, keys);
    }
}

// Query vectors [first, first + kVectors) of the KV head, rotated for a segment at `base`; zeros where there are none.
template <typename T>
__device__ void rotate_vectors(const ProbeArguments<T>& a, const HeadShape& shape, int kv_head, int first, int base,
                               T* to) {
    const int half = shape.head_dim / 2;  // a multiple of four
    const int group = shape.num_heads / shape.num_kv_heads;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kVectors * half / 4; i += kWarp) {
        const int vector = first + i / (half / 4);
        const int pair = i % (half / 4) * 4;
        Together<T, 4> low{};
        Together<T, 4> high{};
        if (vector < a.num_rows * group) {
            const int row = vector / group;
            const T* const q = a.queries + a.query_layout.offset(a.first_row + row, kv_head * group + vector % group);
            low = load_together<4>(q + pair);
            high = load_together<4>(q + pair + half);
            if (a.rope != nullptr) {
                const int distance = max(0, a.first_position + row - base);
                const auto rotations = load_together<4>(a.rope + static_cast<int64_t>(distance) * half + pair);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float x = to_float(low.values[j]);
                    const float y = to_float(high.values[j]);
                    const float2 by = rotations.values[j];
                    low.values[j] = from_float<T>(x * by.x - y * by.y);
                    high.values[j] = from_float<T>(y * by.x + x * by.y);
                }
            }
        }
        T* const rotated = to + i / (half / 4) * stride_of<T>(shape.head_dim) + pair;
        store_together(rotated, low);
        store_together(rotated + half, high);
    }
}

// Products of the warp's query vectors with the tile's keys. Lane 8 i + j reads row j of the operands' matrix i.
template <typename T>
__device__ void multiply(const T* queries, const T* keys, int head_dim, Fragment<kTokens>& products) {
    const int stride = stride_of<T>(head_dim);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (sizeof(T) == 2) {
        const T* const of_query = queries + lane % 16 * stride + lane / 16 * 8;
        const T* const of_key = keys + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
        for (int dim = 0; dim < head_dim; dim += 16) {
            uint32_t q[4];
            load_matrices(q, of_query + dim);
#pragma unroll
            for (int octet = 0; octet < Fragment<kTokens>::kOctets; octet += 2) {
                uint32_t k[4];
                load_matrices(k, of_key + 8 * octet * stride + dim);
                multiply_add(products.octets[octet], q, k[0], k[1], T());
                multiply_add(products.octets[octet + 1], q, k[2], k[3], T());
            }
        }
    } else {
        const T* const of_query = queries + lane / 4 * stride;
        const T* const of_key = keys + Fragment<kTokens>::first_column(lane) * stride;
        for (int dim = 0; dim < head_dim; ++dim) {
#pragma unroll
            for (int j = 0; j < Fragment<kTokens>::kOctets * 4; ++j) {
                float& product = products.octets[j / 4][j % 4];
                const T* const key = of_key + (j / 4 * 8 + j % 2) * stride;
                product = fmaf(of_query[j / 2 % 2 * 8 * stride + dim], key[dim], product);
            }
        }
    }
}

// log2(2^a + 2^b); -infinity of two of these.
__device__ inline float add_base2(float a, float b) {
    const float highest = fmaxf(a, b);
    return highest == -INFINITY ? highest : highest + log2f(exp2f(a - highest) + exp2f(b - highest));
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
    T* keys;     // of the tile
    T* queries;  // of the warp

    __device__ PageBlock(const ProbeArguments<T>& arguments, const HeadShape& heads) : a(arguments), shape(heads) {
        probed = a.probed[blockIdx.x];
        kv_head = static_cast<int>(blockIdx.y);
        group = shape.num_heads / shape.num_kv_heads;
        vectors = a.num_rows * group;
        page = static_cast<const P*>(a.pages) + probed.page * shape.page_elements() +
               static_cast<int64_t>(kv_head) * shape.page_size * shape.head_dim;
        keys = reinterpret_cast<T*>(dynamic_shared());
        const int stride = stride_of<T>(shape.head_dim);
        queries = keys + (kTokens + static_cast<int>(threadIdx.x) / kWarp * kVectors) * stride;
        const int padding = padded_dim(shape.head_dim) - shape.head_dim;
        for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kVectors * padding; i += kWarp)
            queries[i / padding * stride + shape.head_dim + i % padding] = from_float<T>(0.0F);
    }

    // Computes the scores of the tile that begins with token `first`. For each 16 query vectors of the warp it calls
    // take(vector, scores): a lane holds the scores of two vectors, number `vector` and number `vector` + 8. Scores are
    // -infinity where a vector does not see a token. Numbers of `vectors` and above belong to no vector, and `take` has
    // to leave them out. All threads of the block must call this.
    template <typename Take>
    __device__ void score_tile(int first, Take take) const {
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        __syncthreads();
        load_keys(page, first, probed.end_token, shape.page_size, shape.head_dim, keys);
        __syncthreads();
        for (int of_warp = warp * kVectors; of_warp < vectors; of_warp += kWarps * kVectors) {
            rotate_vectors(a, shape, kv_head, of_warp, probed.base, queries);
            __syncwarp();
            Fragment<kTokens> scores{};
            multiply(queries, keys, shape.head_dim, scores);
            __syncwarp();
            const int vector = of_warp + lane / 4;
            score<MathOf<T>>(a.rule, scores);
            VisibleTokens visible[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int position = a.first_position + (vector + 8 * half) / group - probed.base;
                visible[half] = {probed.first_token, causal_end(position, probed.end_token)};
            }
            mask(visible, first, scores);
            take(vector, scores);
        }
    }
};

template <typename T, typename P>
__global__ void __launch_bounds__(kThreads) page_lse_kernel(ProbeArguments<T> a, HeadShape shape) {
    const PageBlock<T, P> block(a, shape);
    float* const lse = a.lse + (static_cast<int64_t>(blockIdx.x) * shape.num_kv_heads + block.kv_head) * block.vectors;
    for (int first = block.probed.first_token; first < block.probed.end_token; first += kTokens) {
        block.score_tile(first, [&](int first_vector, Fragment<kTokens>& scores) {
            OnlineSoftmax of_tile[2];
            float correction[2];
            weigh<MathOf<T>>(of_tile, scores, correction);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int vector = first_vector + 8 * i;
                of_tile[i].sum = four_lanes_sum(of_tile[i].sum);
                if (threadIdx.x % 4 != 0 || vector >= block.vectors) continue;
                const float found = of_tile[i].lse<ExactMath>();
                lse[vector] = first == block.probed.first_token ? found : add_base2(lse[vector], found);
            }
        });
    }
}

// The log-sum-exp of each query vector's scores over all pages. A block has 32 query vectors, one for each lane, and
// eight warps, each of which adds up every eighth page.
__global__ void __launch_bounds__(kShareThreads) total_kernel(const float* lse, int pages, int vectors, float* totals) {
    __shared__ OnlineSoftmax of_warps[kShareThreads / kWarp][kWarp];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int vector = static_cast<int>(blockIdx.x) * kWarp + lane;
    OnlineSoftmax& mine = of_warps[warp][lane];
    OnlineSoftmax softmax;
    for (int page = warp; page < pages && vector < vectors; page += kShareThreads / kWarp) {
        const float of_page = lse[static_cast<int64_t>(page) * vectors + vector];
        softmax.raise<ExactMath>(fmaxf(softmax.highest, of_page));
        softmax.sum += exp2f(of_page - weight_reference(softmax.highest));
    }
    mine = softmax;
    __syncthreads();
    if (warp > 0 || vector >= vectors) return;
    for (int other = 1; other < kShareThreads / kWarp; ++other) {
        const OnlineSoftmax of_warp = of_warps[other][lane];
        softmax.raise<ExactMath>(fmaxf(softmax.highest, of_warp.highest));
        softmax.sum += of_warp.sum * exp2f(of_warp.highest - weight_reference(softmax.highest));
    }
    totals[vector] = softmax.sum == 0 ? 0.0F : softmax.lse<ExactMath>();
}

// a.shares[head][token] of the block's page and KV head.
template <typename T, typename P>
__global__ void __launch_bounds__(kThreads) share_kernel(ProbeArguments<T> a, HeadShape shape) {
    __shared__ float of_warps[kWarps][kTokens];
    const PageBlock<T, P> block(a, shape);
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    const float* const totals = a.totals + static_cast<int64_t>(block.kv_head) * block.vectors;
    float* const shares = a.shares + static_cast<int64_t>(block.kv_head) * a.num_tokens + block.probed.first_weight;
    for (int first = block.probed.first_token; first < block.probed.end_token; first += kTokens) {
        float sums[Fragment<kTokens>::kOctets][2] = {};  // of the lane's vectors, for each of its tokens
        block.score_tile(first, [&](int first_vector, const Fragment<kTokens>& scores) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int vector = first_vector + 8 * i;
                if (vector >= block.vectors) continue;
                const float total = totals[vector];
#pragma unroll
                for (int j = 0; j < Fragment<kTokens>::kOctets * 2; ++j)
                    sums[j / 2][j % 2] += MathOf<T>::exp2(scores.at(j / 2, i, j % 2) - total);
            }
        });
#pragma unroll
        for (int j = 0; j < Fragment<kTokens>::kOctets * 2; ++j) {
            const float sum = eight_lanes_sum(sums[j / 2][j % 2]);
            if (lane < 4) of_warps[thread / kWarp][j / 2 * 8 + Fragment<kTokens>::first_column(lane) + j % 2] = sum;
        }
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
    of_pages.shared_bytes = shared_bytes<T>(shape.head_dim);
    NL_TRY(launch(page_lse_kernel<T, P>, of_pages, stream, a, shape));
    NL_TRY(launch(total_kernel, {dim3(static_cast<unsigned>((vectors + kWarp - 1) / kWarp)), dim3(kShareThreads)},
                  stream, a.lse, a.num_pages, vectors, a.totals));
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
