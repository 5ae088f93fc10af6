// Attention in float32, where tensor cores would round: the same work list as narrow.cu, up to 16 query vectors an
// item, over tiles of 32 tokens, with the online softmax of Milakov and Gimelshein (2018) as in FlashAttention (Dao et
// al., 2022).
//
// Tiling: blocks of 4 warps, each of which computes a list of items one after the other. In shared memory: the queries,
// rotated for the current span; a tile of K and one of V, rows padded by 16 bytes against bank conflicts; the weights
// of the tile. For the scores a lane is a token; for the weighted sum of V a lane is kLaneDims elements of the head.
// Each warp keeps softmax and output of its four vectors in registers and synchronises with the others only where
// tiles are loaded.
//
// Bytes: an item reads its K and V once for all its vectors. Flops: 4 * vectors * tokens * head_dim on the CUDA cores.
// Decode is bound by memory; prefill by the shared-memory reads of the queries (one 16-byte broadcast for four
// multiply-adds).
#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "attention/merge/merge.cuh"
#include "device/dynamic_shared.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kPerWarp = 4;  // query vectors of a warp
constexpr int kTileVectors = kWarps * kPerWarp;
constexpr int kTileTokens = 32;

using Arguments = AttentionArguments<float>;

// Offsets in the block's shared memory, in floats.
struct SharedLayout {
    int stride;  // from one token of a tile to the next
    int keys;
    int values;
    int weights;
    int end;
};

__host__ __device__ inline SharedLayout shared_layout(int head_dim) {
    SharedLayout layout{};
    layout.stride = head_dim + 4;
    layout.keys = kTileVectors * head_dim;
    layout.values = layout.keys + kTileTokens * layout.stride;
    layout.weights = layout.values + kTileTokens * layout.stride;
    layout.end = layout.weights + kTileVectors * kTileTokens;
    return layout;
}

// Copies tokens [first, first + 32) of one KV head to shared memory, zeros from `end` on.
// `from` is the head in page 0: K for the keys, V for the values.
__device__ void load_tile(const float* from, const int32_t* pages, int first, int end, const HeadShape& shape,
                          int stride, float* to) {
    const int quads = shape.head_dim / 4;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * quads; i += kThreads) {
        const int token = i / quads;
        const int dim = i % quads * 4;
        const int t = first + token;
        float4 value = make_float4(0, 0, 0, 0);
        if (t < end) {
            const int64_t page = pages[t / shape.page_size];
            value = *reinterpret_cast<const float4*>(from + page * shape.page_elements() +
                                                     static_cast<int64_t>(t % shape.page_size) * shape.head_dim + dim);
        }
        *reinterpret_cast<float4*>(to + token * stride + dim) = value;
    }
}

// Writes the item's queries, rotated for `span`, to shared memory; zeros for vectors that the item does not have or
// that attend to no token of the span.
__device__ void rotate_queries(const Arguments& a, const AttentionItem& item, const Span& span, const HeadShape& shape,
                               int kv_head, float* to) {
    const int half = shape.head_dim / 2;
    for (int i = static_cast<int>(threadIdx.x); i < kTileVectors * half; i += kThreads) {
        const int m = i / half;
        const int pair = i % half;
        float2 rotated = make_float2(0, 0);
        if (m < item.num_vectors) {
            const QueryVector vector = query_vector(a.work, item, shape.num_heads / shape.num_kv_heads, kv_head, m);
            const int position = vector.position - span.base;
            const VisibleTokens visible = visible_tokens(a.rule, span, position);
            if (visible.first < visible.end) {
                const float* const q = a.queries + a.query_layout.offset(vector.row, vector.head);
                const float2 rotation =
                    a.rope == nullptr ? make_float2(1, 0) : a.rope[static_cast<int64_t>(position) * half + pair];
                rotated = make_float2(q[pair] * rotation.x - q[pair + half] * rotation.y,
                                      q[pair + half] * rotation.x + q[pair] * rotation.y);
            }
        }
        to[m * shape.head_dim + pair] = rotated.x;
        to[m * shape.head_dim + pair + half] = rotated.y;
    }
}

// One warp's query vectors: their softmax and the output so far.
template <int kLaneDims>
struct WarpState {
    OnlineSoftmax softmax[kPerWarp];
    float output[kPerWarp][kLaneDims] = {};

    // Products of the warp's queries, the first of them at `queries`, with the lane's token.
    __device__ void multiply(const float* queries, const float* key, int head_dim, float (&scores)[kPerWarp]) const {
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) scores[j] = 0;
        for (int d = 0; d < head_dim; d += 4) {
            const float4 k = *reinterpret_cast<const float4*>(key + d);
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
                const float4 q = *reinterpret_cast<const float4*>(queries + j * head_dim + d);
                scores[j] = fmaf(q.x, k.x, scores[j]);
                scores[j] = fmaf(q.y, k.y, scores[j]);
                scores[j] = fmaf(q.z, k.z, scores[j]);
                scores[j] = fmaf(q.w, k.w, scores[j]);
            }
        }
    }

    // Scores, -infinity where masked, become weights. Not by OnlineSoftmax::raise, with which more registers are
    // spilled at head_dim 128.
    __device__ void update(const float (&scores)[kPerWarp], float* weights, int lane) {
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) {
            OnlineSoftmax& state = softmax[j];
            const float highest = fmaxf(state.highest, warp_max(scores[j]));
            // Masked tokens have a weight of 0, also where all are masked; a score of NaN is not masked and stays NaN.
            const float correction = highest > -INFINITY ? exp2f(state.highest - highest) : 1.0F;
            const float weight = scores[j] == -INFINITY ? 0.0F : exp2f(scores[j] - highest);
            state.highest = highest;
            state.sum = state.sum * correction + warp_sum(weight);
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) output[j][d] *= correction;
            weights[j * kTileTokens + lane] = weight;
        }
    }

    // output += weights * V, the lane's elements beginning at `values`.
    __device__ void accumulate(const float* weights, const float* values, int stride) {
#pragma unroll 4
        for (int t = 0; t < kTileTokens; ++t) {
            float v[kLaneDims];
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) v[d] = values[t * stride + d];
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
                const float weight = weights[j * kTileTokens + t];
#pragma unroll
                for (int d = 0; d < kLaneDims; ++d) output[j][d] = fmaf(weight, v[d], output[j][d]);
            }
        }
    }
};

// Writes the output or the partial result of vector m of the item, the warp's vector j.
template <int kLaneDims>
__device__ void write_vector(const Arguments& a, const HeadShape& shape, const AttentionItem& item, int kv_head, int m,
                             const WarpState<kLaneDims>& state, int j) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const QueryVector vector = query_vector(a.work, item, shape.num_heads / shape.num_kv_heads, kv_head, m);
    const float sum = state.softmax[j].sum;
    const float inverse = sum == 0 ? 0.0F : a.rule.value_scale / sum;
    const float lse = state.softmax[j].template lse<ExactMath>();
    const int64_t part = (kv_head * a.partial.capacity + item.partial + m) * shape.head_dim;
    float* const to = a.output + a.output_layout.offset(vector.row, vector.head);
#pragma unroll
    for (int d = 0; d < kLaneDims; ++d) {
        const int dim = lane * kLaneDims + d;
        if (dim >= shape.head_dim) continue;
        const float value = state.output[j][d] * inverse;
        if (item.partial < 0) {
            to[dim] = value;
        } else {
            publish(a.partial.outputs + part + dim, value);
            if (dim % 4 == 0) publish(a.partial.sums + (part + dim) / 4, lse);
        }
    }
    if (item.partial < 0 && lane == 0) store_lse(a, shape, vector.row, vector.head, lse);
}

template <int kLaneDims>
__device__ void run_item(const Arguments& a, const HeadShape& shape, const NarrowItem* from, const AttentionItem& item,
                         int kv_head, float* shared) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int first = static_cast<int>(threadIdx.x) / kWarp * kPerWarp;  // the warp's first vector in the item
    const SharedLayout layout = shared_layout(shape.head_dim);
    float* const keys = shared + layout.keys;
    float* const values = shared + layout.values;
    float* const weights = shared + layout.weights + first * kTileTokens;
    const int64_t head_elements = static_cast<int64_t>(shape.page_size) * shape.head_dim;
    const float* const head_keys = static_cast<const float*>(a.pages) + kv_head * head_elements;
    const float* const head_values = head_keys + shape.num_kv_heads * head_elements;

    WarpState<kLaneDims> state;
    for (int i = 0; i < item.num_spans; ++i) {
        const Span span = i == 0 ? from->span : a.work.spans[item.first_span + i];
        VisibleTokens visible[kPerWarp];
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) {
            const int m = min(first + j, item.num_vectors - 1);
            const QueryVector vector = query_vector(a.work, item, shape.num_heads / shape.num_kv_heads, kv_head, m);
            visible[j] = visible_tokens(a.rule, span, vector.position - span.base);
        }
        __syncthreads();
        rotate_queries(a, item, span, shape, kv_head, shared);
        for (int token = span.first_token; token < span.end_token; token += kTileTokens) {
            __syncthreads();
            load_tile(head_keys, a.work.page_table + span.first_page, token, span.end_token, shape, layout.stride,
                      keys);
            load_tile(head_values, a.work.page_table + span.first_page, token, span.end_token, shape, layout.stride,
                      values);
            __syncthreads();
            if (first >= item.num_vectors) continue;
            float scores[kPerWarp];
            state.multiply(shared + first * shape.head_dim, keys + lane * layout.stride, shape.head_dim, scores);
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
                const bool attended = token + lane >= visible[j].first && token + lane < visible[j].end;
                scores[j] = attended ? score<ExactMath>(a.rule, scores[j]) : -INFINITY;
            }
            state.update(scores, weights, lane);
            __syncwarp();
            if (lane * kLaneDims < shape.head_dim) state.accumulate(weights, values + lane * kLaneDims, layout.stride);
        }
    }
#pragma unroll
    for (int j = 0; j < kPerWarp; ++j) {
        if (first + j < item.num_vectors) write_vector(a, shape, item, kv_head, first + j, state, j);
    }
}

template <int kLaneDims>
__global__ void __launch_bounds__(kThreads) plain_kernel(const __grid_constant__ Arguments a, HeadShape shape) {
    float* const shared = reinterpret_cast<float*>(dynamic_shared());
    const int kv_head = static_cast<int>(blockIdx.x) % shape.num_kv_heads;
    const int block = static_cast<int>(blockIdx.x) / shape.num_kv_heads;
    for (int index = block; index >= 0;) {
        const NarrowItem* const from = a.work.narrow + index;
        const AttentionItem item = from->item;
        if (item.num_vectors == 0) break;
        run_item<kLaneDims>(a, shape, from, item, kv_head, shared);
        index = from->next;
        __syncthreads();  // all warps have finished with the item
    }
    const NarrowItem& begin = a.work.narrow[block];
    merge_row_groups<4, kLaneDims * kWarp>(a, shape, kv_head, begin.first_merge, begin.num_merges,
                                           static_cast<int>(threadIdx.x), kThreads);
}

template <int kLaneDims>
Result<void> launch_plain(const Arguments& arguments, const HeadShape& shape, int blocks, cudaStream_t stream) {
    const auto bytes = static_cast<size_t>(shared_layout(shape.head_dim).end) * sizeof(float);
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks * shape.num_kv_heads)), dim3(kThreads), bytes};
    return launch(plain_kernel<kLaneDims>, launch_shape, stream, arguments, shape);
}

}  // namespace

Result<void> attend_plain(const Arguments& arguments, const HeadShape& shape, int blocks, cudaStream_t stream) {
    if (shape.head_dim <= 64) return launch_plain<2>(arguments, shape, blocks, stream);
    if (shape.head_dim <= 128) return launch_plain<4>(arguments, shape, blocks, stream);
    return launch_plain<8>(arguments, shape, blocks, stream);
}

}  // namespace nanolith::cuda
