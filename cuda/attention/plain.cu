// Attention of up to 4 * kPerWarp query vectors that share a KV head, over tiles of 32 tokens, with the online
// softmax of Milakov and Gimelshein (2018) as in FlashAttention (Dao et al., 2022).
//
// Tiling: one block of 4 warps for each item and KV head. In shared memory: the queries as float32, rotated for the
// segment at hand; a tile of K and one of V as they are stored, rows padded by 16 bytes against bank conflicts; the
// weights of the tile. For the scores a lane is a token; for the weighted sum of V a lane is kLaneDims elements of
// the head. Each warp keeps maximum, sum and output of its kPerWarp vectors in registers and meets the others only
// where tiles are loaded.
//
// Bytes: an item reads its K and V once for all its vectors, so decode reads each KV head once for its whole group.
// Flops: 4 * vectors * tokens * head_dim on the CUDA cores. Decode is bound by memory; prefill by the shared-memory
// reads of the queries (one 16-byte broadcast for four multiply-adds). 40 to 128 registers a thread; most instances
// spill 4 to 36 bytes, one 72 (sm_90a, nvcc 13.0).
#include "attention/attention.h"
#include "device/dynamic_shared.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "device/rope.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;

// Offsets in the block's shared memory, in bytes, each a multiple of 16.
struct SharedLayout {
    int padded_dim;  // head_dim up to a multiple of 8; the rest is zero
    int stride;      // elements from one token of a tile to the next
    int keys;
    int values;
    int weights;
    int bytes;
};

template <typename T>
__host__ __device__ SharedLayout shared_layout(int head_dim, int tile_vectors) {
    SharedLayout layout{};
    layout.padded_dim = (head_dim + 7) / 8 * 8;
    layout.stride = layout.padded_dim + kPack<T>;
    const int tile_bytes = kTileTokens * layout.stride * static_cast<int>(sizeof(T));
    layout.keys = tile_vectors * layout.padded_dim * static_cast<int>(sizeof(float));
    layout.values = layout.keys + tile_bytes;
    layout.weights = layout.values + tile_bytes;
    layout.bytes = layout.weights + tile_vectors * kTileTokens * static_cast<int>(sizeof(float));
    return layout;
}

// Copies tokens [first, first + 32) of one KV head to shared memory, zeros from `end` on and beyond head_dim.
// `from` is the head in page 0: K for the keys, V for the values.
template <typename T>
__device__ void load_tile(const T* from, const int32_t* pages, int first, int end, const HeadShape& shape,
                          const SharedLayout& layout, T* to) {
    const int packs = layout.padded_dim / kPack<T>;
    const bool aligned = shape.head_dim % kPack<T> == 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * packs; i += kThreads) {
        const int token = i / packs;
        const int dim = i % packs * kPack<T>;
        const int t = first + token;
        T* const target = to + token * layout.stride + dim;
        const T* source = nullptr;
        if (t < end) {
            const int64_t page = pages[t / shape.page_size];
            source = from + page * shape.page_elements() + static_cast<int64_t>(t % shape.page_size) * shape.head_dim;
        }
        if (aligned && dim < shape.head_dim) {
            *reinterpret_cast<uint4*>(target) =
                source != nullptr ? *reinterpret_cast<const uint4*>(source + dim) : make_uint4(0, 0, 0, 0);
        } else {
            for (int j = 0; j < kPack<T>; ++j) {
                const bool inside = source != nullptr && dim + j < shape.head_dim;
                target[j] = inside ? source[dim + j] : from_float<T>(0.0F);
            }
        }
    }
}

// Where query vector m of an item is: its row of the batch and its query head.
struct VectorPlace {
    int row;
    int head;
};

__device__ inline VectorPlace vector_place(const HeadShape& shape, int first_row, int vector, int kv_head) {
    const int group = shape.num_heads / shape.num_kv_heads;
    return {first_row + vector / group, kv_head * group + vector % group};
}

// Writes the item's queries, rotated to where `segment` stands, to shared memory; zeros in place of vectors that
// the item lacks or that see nothing of the segment.
template <typename T>
__device__ void rotate_queries(const AttentionArguments<T>& a, const AttentionItem& item, const Segment& segment,
                               const HeadShape& shape, int kv_head, int tile_vectors, int padded_dim, float* to) {
    const int half = shape.head_dim / 2;
    for (int i = static_cast<int>(threadIdx.x); i < tile_vectors * half; i += kThreads) {
        const int m = i / half;
        const int pair = i % half;
        float2 rotated = make_float2(0, 0);
        if (m < item.num_vectors) {
            const VectorPlace place = vector_place(shape, item.first_row, item.first_vector + m, kv_head);
            const int position = a.positions[place.row] - segment.base;
            if (position >= 0) {
                const T* q = a.qkv + static_cast<int64_t>(place.row) * shape.qkv_size() + place.head * shape.head_dim;
                const float low = to_float(q[pair]);
                const float high = to_float(q[pair + half]);
                const float2 turn = rope_turn(position, a.frequencies[pair]);
                rotated = make_float2(low * turn.x - high * turn.y, high * turn.x + low * turn.y);
            }
        }
        to[m * padded_dim + pair] = rotated.x;
        to[m * padded_dim + pair + half] = rotated.y;
    }
}

// A lane's elements of one token's V, aligned so that they are read at once.
template <typename T, int kLaneDims>
struct alignas(kLaneDims * sizeof(T) < 16 ? kLaneDims * sizeof(T) : 16) LaneValues {
    T elements[kLaneDims];
};

// One warp's query vectors: the running softmax and the output so far.
template <typename T, int kPerWarp, int kLaneDims>
struct WarpState {
    float maximum[kPerWarp];
    float sum[kPerWarp];
    float output[kPerWarp][kLaneDims];

    __device__ WarpState() {
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) {
            maximum[j] = -INFINITY;
            sum[j] = 0;
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) output[j][d] = 0;
        }
    }

    // Base-2 scores of the lane's token: queries are the warp's first one in shared memory, `key` the lane's token.
    __device__ void score(const float* queries, const T* key, int padded_dim, float (&scores)[kPerWarp]) const {
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) scores[j] = 0;
        for (int d = 0; d < padded_dim; d += kPack<T>) {
            float k[kPack<T>];
            load_pack(key + d, k);
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
#pragma unroll
                for (int i = 0; i < kPack<T>; i += 4) {
                    const float4 q = *reinterpret_cast<const float4*>(queries + j * padded_dim + d + i);
                    scores[j] = fmaf(q.x, k[i], scores[j]);
                    scores[j] = fmaf(q.y, k[i + 1], scores[j]);
                    scores[j] = fmaf(q.z, k[i + 2], scores[j]);
                    scores[j] = fmaf(q.w, k[i + 3], scores[j]);
                }
            }
        }
    }

    // The online softmax: turns the scores (-inf where hidden) into weights relative to the new maximum.
    __device__ void update(const float (&scores)[kPerWarp], float* weights, int lane) {
#pragma unroll
        for (int j = 0; j < kPerWarp; ++j) {
            const float highest = fmaxf(maximum[j], warp_max(scores[j]));
            // Hidden tokens weigh nothing, also where all are hidden; NaN is no hidden token and stays NaN.
            const float correction = highest > -INFINITY ? exp2f(maximum[j] - highest) : 1.0F;
            const float weight = scores[j] == -INFINITY ? 0.0F : exp2f(scores[j] - highest);
            maximum[j] = highest;
            sum[j] = sum[j] * correction + warp_sum(weight);
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) output[j][d] *= correction;
            weights[j * kTileTokens + lane] = weight;
        }
    }

    // output += weights * V, the lane's elements beginning at `values`.
    __device__ void accumulate(const float* weights, const T* values, int stride) {
#pragma unroll 2
        for (int t = 0; t < kTileTokens; t += 4) {
            float v[4][kLaneDims];
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                const auto lane_values = *reinterpret_cast<const LaneValues<T, kLaneDims>*>(values + (t + u) * stride);
#pragma unroll
                for (int d = 0; d < kLaneDims; ++d) v[u][d] = to_float(lane_values.elements[d]);
            }
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
                const float4 w = *reinterpret_cast<const float4*>(weights + j * kTileTokens + t);
#pragma unroll
                for (int d = 0; d < kLaneDims; ++d) {
                    output[j][d] = fmaf(w.x, v[0][d], output[j][d]);
                    output[j][d] = fmaf(w.y, v[1][d], output[j][d]);
                    output[j][d] = fmaf(w.z, v[2][d], output[j][d]);
                    output[j][d] = fmaf(w.w, v[3][d], output[j][d]);
                }
            }
        }
    }
};

template <typename T, int kPerWarp, int kLaneDims>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionArguments<T> a, HeadShape shape) {
    constexpr int kTileVectors = kWarps * kPerWarp;
    const AttentionItem item = a.items[blockIdx.x];
    if (item.num_vectors == 0) return;
    const int kv_head = static_cast<int>(blockIdx.y);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int first = warp * kPerWarp;  // the warp's first vector in the item
    const bool active = first < item.num_vectors;

    const SharedLayout layout = shared_layout<T>(shape.head_dim, kTileVectors);
    std::byte* const shared = dynamic_shared();
    float* const queries = reinterpret_cast<float*>(shared);
    T* const keys = reinterpret_cast<T*>(shared + layout.keys);
    T* const values = reinterpret_cast<T*>(shared + layout.values);
    float* const weights = reinterpret_cast<float*>(shared + layout.weights) + first * kTileTokens;
    for (int i = static_cast<int>(threadIdx.x); i < kTileVectors * layout.padded_dim; i += kThreads) queries[i] = 0;

    int positions[kPerWarp];
#pragma unroll
    for (int j = 0; j < kPerWarp; ++j) {
        const int vector = item.first_vector + min(first + j, item.num_vectors - 1);
        positions[j] = a.positions[vector_place(shape, item.first_row, vector, kv_head).row];
    }
    const int last_vector = item.first_vector + item.num_vectors - 1;
    const int last_position = a.positions[vector_place(shape, item.first_row, last_vector, kv_head).row];
    const int64_t head_elements = static_cast<int64_t>(shape.page_size) * shape.head_dim;
    const T* const head_keys = a.pages + kv_head * head_elements;
    const T* const head_values = head_keys + shape.num_kv_heads * head_elements;
    const float base2_scale = a.scale * 1.44269504088896341F;  // log2(e): weights are powers of two

    WarpState<T, kPerWarp, kLaneDims> state;
    int segment_index = item.segment;
    int tile = item.first_tile;
    for (int left = item.num_tiles; left > 0; ++segment_index, tile = 0) {
        const Segment segment = a.segments[segment_index];
        const int end = visible_tokens(segment, last_position);
        const int tiles = (end + kTileTokens - 1) / kTileTokens;
        if (tile >= tiles) continue;
        __syncthreads();
        rotate_queries(a, item, segment, shape, kv_head, kTileVectors, layout.padded_dim, queries);
        for (; tile < tiles && left > 0; ++tile, --left) {
            __syncthreads();
            load_tile(head_keys, a.page_table + segment.first_page, tile * kTileTokens, end, shape, layout, keys);
            load_tile(head_values, a.page_table + segment.first_page, tile * kTileTokens, end, shape, layout, values);
            __syncthreads();
            if (!active) continue;
            float scores[kPerWarp];
            state.score(queries + first * layout.padded_dim, keys + lane * layout.stride, layout.padded_dim, scores);
#pragma unroll
            for (int j = 0; j < kPerWarp; ++j) {
                const bool seen = tile * kTileTokens + lane < visible_tokens(segment, positions[j]);
                scores[j] = seen ? scores[j] * base2_scale : -INFINITY;
            }
            state.update(scores, weights, lane);
            __syncwarp();
            if (lane * kLaneDims < layout.padded_dim) {
                state.accumulate(weights, values + lane * kLaneDims, layout.stride);
            }
        }
    }

#pragma unroll
    for (int j = 0; j < kPerWarp; ++j) {
        const int m = first + j;
        if (m >= item.num_vectors) break;
        if (item.slot < 0) {
            const VectorPlace place = vector_place(shape, item.first_row, item.first_vector + m, kv_head);
            T* const to = a.output + (static_cast<int64_t>(place.row) * shape.num_heads + place.head) * shape.head_dim;
            const float inverse = state.sum[j] == 0 ? 0.0F : 1.0F / state.sum[j];
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) {
                const int dim = lane * kLaneDims + d;
                if (dim < shape.head_dim) to[dim] = from_float<T>(state.output[j][d] * inverse);
            }
        } else {
            const int64_t index = (static_cast<int64_t>(item.slot) * shape.num_kv_heads + kv_head) * kTileVectors + m;
            if (lane == 0) a.partial_sums[index] = make_float2(state.maximum[j], state.sum[j]);
#pragma unroll
            for (int d = 0; d < kLaneDims; ++d) {
                const int dim = lane * kLaneDims + d;
                if (dim < shape.head_dim) a.partial_outputs[index * shape.head_dim + dim] = state.output[j][d];
            }
        }
    }
}

// Merges partial results by their maxima and sums, which is exact: one block for each merge item and KV head, a warp
// for each query vector in turn. Bytes: 4 * head_dim for each slot and vector; bound by the launch.
template <typename T>
__global__ void __launch_bounds__(kThreads) merge_kernel(AttentionArguments<T> a, HeadShape shape, int tile_vectors) {
    const MergeItem item = a.merges[blockIdx.x];
    const int kv_head = static_cast<int>(blockIdx.y);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t slot_step = static_cast<int64_t>(shape.num_kv_heads) * tile_vectors;
    for (int m = static_cast<int>(threadIdx.x) / kWarp; m < item.num_vectors; m += kWarps) {
        const int64_t first = item.first_slot * slot_step + kv_head * tile_vectors + m;
        float maximum = -INFINITY;
        for (int s = lane; s < item.num_slots; s += kWarp) {
            maximum = fmaxf(maximum, a.partial_sums[first + s * slot_step].x);
        }
        maximum = warp_max(maximum);
        const VectorPlace place = vector_place(shape, item.first_row, item.first_vector + m, kv_head);
        T* const to = a.output + (static_cast<int64_t>(place.row) * shape.num_heads + place.head) * shape.head_dim;
        for (int dim = lane; dim < shape.head_dim; dim += kWarp) {
            float sum = 0;
            float output = 0;
#pragma unroll 4
            for (int s = 0; s < item.num_slots; ++s) {
                const int64_t index = first + s * slot_step;
                const float2 partial = a.partial_sums[index];
                const float weight = partial.y == 0 ? 0.0F : exp2f(partial.x - maximum);
                sum = fmaf(weight, partial.y, sum);
                output = fmaf(weight, a.partial_outputs[index * shape.head_dim + dim], output);
            }
            to[dim] = from_float<T>(sum == 0 ? 0.0F : output / sum);
        }
    }
}

template <typename T, int kPerWarp, int kLaneDims>
Result<void> launch_attention(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                              cudaStream_t stream) {
    const auto bytes = static_cast<size_t>(shared_layout<T>(shape.head_dim, kWarps * kPerWarp).bytes);
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(num_items), static_cast<unsigned>(shape.num_kv_heads)),
                                   dim3(kThreads), bytes};
    return launch(attention_kernel<T, kPerWarp, kLaneDims>, launch_shape, stream, arguments, shape);
}

template <typename T, int kPerWarp>
Result<void> launch_for_head_dim(const AttentionArguments<T>& arguments, const HeadShape& shape, int num_items,
                                 cudaStream_t stream) {
    if (shape.head_dim <= 64) return launch_attention<T, kPerWarp, 2>(arguments, shape, num_items, stream);
    if (shape.head_dim <= 128) return launch_attention<T, kPerWarp, 4>(arguments, shape, num_items, stream);
    return launch_attention<T, kPerWarp, 8>(arguments, shape, num_items, stream);
}

template <typename T>
Result<void> launch_items(const AttentionArguments<T>& arguments, const HeadShape& shape,
                          const AttentionLaunch& attention, cudaStream_t stream) {
    switch (attention.tile_vectors) {
        case 4:
            return launch_for_head_dim<T, 1>(arguments, shape, attention.num_items, stream);
        case 8:
            return launch_for_head_dim<T, 2>(arguments, shape, attention.num_items, stream);
        default:
            return launch_for_head_dim<T, 4>(arguments, shape, attention.num_items, stream);
    }
}

}  // namespace

template <typename T>
Result<void> attend(const AttentionArguments<T>& arguments, const HeadShape& shape, const AttentionLaunch& attention,
                    cudaStream_t stream) {
    NL_TRY(launch_items(arguments, shape, attention, stream));
    if (attention.num_merges == 0) return {};
    const LaunchShape launch_shape{
        dim3(static_cast<unsigned>(attention.num_merges), static_cast<unsigned>(shape.num_kv_heads)), dim3(kThreads)};
    return launch(merge_kernel<T>, launch_shape, stream, arguments, shape, attention.tile_vectors);
}

#define NL_INSTANTIATE(T) \
    template Result<void> attend(const AttentionArguments<T>&, const HeadShape&, const AttentionLaunch&, cudaStream_t);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)

}  // namespace nanolith::cuda
