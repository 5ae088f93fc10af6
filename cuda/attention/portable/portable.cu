// Attention of few query vectors a KV head on the tensor cores (PTX "mma.sync", sm_80 and newer): decode, segments that
// a few rows share, and prefill where there is no wide kernel. The online softmax is that of Milakov and Gimelshein
// (2018) in the form of FlashAttention-2 (Dao, 2023).
//
// Tiling: blocks of 4 warps, two on a multiprocessor; each computes a list of items one after the other, each for one
// KV head. Shared memory is a ring of kStages tiles of 64 tokens of K and V, rows padded by 16 bytes against bank
// conflicts; each warp copies its own 16 tokens of a tile (PTX "cp.async"), two tiles ahead of the arithmetic, also
// into the next span. Items of up to 16 vectors: every warp holds all of them and attends to its own 16 tokens of every
// tile, so that warps wait for each other only at the end, where their results are merged. Items of up to 64 vectors: a
// warp holds 16 of them and attends to all tokens. Queries stay in registers and are rotated again where a span's base
// changes; the scores' registers become, as weights, the left operand of the second product.
//
// Bytes: K and V once for each item and KV head. Flops: 4 * max(vectors, 16) * tokens * head_dim. Bound by memory up to
// about 64 vectors.
#include <climits>

#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "attention/merge/merge.cuh"
#include "device/async_copy.cuh"
#include "device/dynamic_shared.cuh"
#include "device/fragment.cuh"
#include "device/mma.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kWarpTokens = kNarrowTokens / kWarps;
constexpr int kRows = 16;  // query vectors of a warp
constexpr int kMaxVectors = kRows * kWarps;

// kDim: head_dim, or the next larger size that there is a kernel for; the elements from head_dim on are zeros.
template <typename T, int kDim>
struct Ring {
    static constexpr int kStages = kDim <= 128 ? 3 : 2;
    static constexpr int kStride = kDim + kPack<T>;  // elements from one token to the next
    static constexpr int kTensor = kNarrowTokens * kStride;
    static constexpr int kOutputStride = kDim + 4;  // floats from one vector's output to the next, at the end
    static constexpr size_t kBytes = sizeof(T) * 2 * kTensor * kStages;
    static_assert(kBytes >= sizeof(float) * kMaxVectors * (kOutputStride + 2));
    // Where registers are too few for them, each warp's queries are in shared memory after the ring.
    static constexpr bool kSharedQueries = kDim > 128;
    static constexpr size_t kAllBytes = kBytes + (kSharedQueries ? sizeof(T) * kMaxVectors * kStride : 0);
};

// A position in an item's spans that advances by tiles of 64 tokens.
class Cursor {
  public:
    __device__ Cursor(const WorkView& work, const AttentionItem& item, const Span& first)
        : spans_(work.spans + item.first_span), left_(item.num_spans), span_(first), token_(first.first_token) {}

    __device__ bool done() const { return left_ == 0; }
    __device__ const Span& span() const { return span_; }
    __device__ int token() const { return token_; }
    // Returns whether another span began.
    __device__ bool advance() {
        token_ += kNarrowTokens;
        if (token_ < span_.end_token) return false;
        if (--left_ > 0) {
            span_ = *++spans_;
            token_ = span_.first_token;
        }
        return true;
    }

  private:
    const Span* spans_;
    int left_;
    Span span_;
    int token_;
};

// Copies a warp's tokens of one tile after the other to shared memory.
template <typename T, int kDim>
class Loader {
  public:
    // `from` is the item in the work list.
    __device__ Loader(const AttentionArguments<T>& a, const HeadShape& shape, const NarrowItem* from, int kv_head,
                      T* ring)
        : work_(a.work),
          shape_(shape),
          cursor_(a.work, from->item, from->span),
          keys_(static_cast<const T*>(a.pages) + static_cast<int64_t>(kv_head) * shape.page_size * shape.head_dim),
          ring_(ring),
          page_(from->pages[warp()]) {}

    // Starts the copies of the next tile, if there is one, and ends their group.
    __device__ void load_next() {
        if (!cursor_.done()) {
            load();
            cursor_.advance();
            if (!cursor_.done()) page_ = find_page();
        }
        commit_copies();
        stage_ = stage_ == Ring<T, kDim>::kStages - 1 ? 0 : stage_ + 1;
    }

  private:
    static constexpr int kPacks = kDim / kPack<T>;
    static constexpr int kStep = kWarp / kPacks == 0 ? 1 : kWarp / kPacks;  // tokens that a warp copies at once
    static constexpr int kLanePacks = kPacks > kWarp ? kPacks / kWarp : 1;

    static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
    __device__ int first_token() const { return cursor_.token() + warp() * kWarpTokens; }

    // The page of the warp's tokens at the cursor; its 16 tokens never lie in two.
    __device__ int find_page() const {
        const int token = first_token();
        if (token >= cursor_.span().end_token) return 0;
        return __ldg(work_.page_table + cursor_.span().first_page + token / shape_.page_size);
    }

    __device__ void load() {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const int first = first_token();
        const int left = cursor_.span().end_token - first;
        const T* const keys =
            keys_ + page_ * shape_.page_elements() + static_cast<int64_t>(first % shape_.page_size) * shape_.head_dim;
        const int64_t to_values = static_cast<int64_t>(shape_.num_kv_heads) * shape_.page_size * shape_.head_dim;
        T* const to = ring_ + (2 * stage_ * kNarrowTokens + warp() * kWarpTokens) * Ring<T, kDim>::kStride;
        const int dim = lane % (kPacks < kWarp ? kPacks : kWarp) * kPack<T>;
#pragma unroll
        for (int i = 0; i < kWarpTokens; i += kStep) {
            const int token = i + lane / (kPacks < kWarp ? kPacks : kWarp);
            if (token >= kWarpTokens || lane / (kPacks < kWarp ? kPacks : kWarp) >= kStep) break;
#pragma unroll
            for (int j = 0; j < kLanePacks; ++j) {
                const int at = dim + j * kWarp * kPack<T>;
                const bool exists = token < left && at < shape_.head_dim;
                const T* const from = exists ? keys + token * shape_.head_dim + at : keys_;
                copy_async(to + token * Ring<T, kDim>::kStride + at, from, exists);
                copy_async(to + Ring<T, kDim>::kTensor + token * Ring<T, kDim>::kStride + at,
                           exists ? from + to_values : from, exists);
            }
        }
    }

    const WorkView& work_;
    const HeadShape& shape_;
    Cursor cursor_;
    const T* const keys_;  // the KV head's keys in page 0
    T* const ring_;
    int page_;
    int stage_ = 0;
};

// A warp's 16 query vectors as the left operand of the first product, and the tokens that each lane's two vectors
// attend to.
template <typename T, int kDim>
class Queries {
  public:
    VisibleTokens visible[2];
    int unmasked_first;  // all vectors attend to the tokens [unmasked_first, unmasked_end)
    int unmasked_end;

    // `shared` is the block's memory after the ring.
    __device__ explicit Queries(T* shared)
        : rows_(shared + static_cast<int>(threadIdx.x) / kWarp * kRows * Ring<T, kDim>::kStride) {}

    // Loads vectors first ... first + 15 of the item, rotated for `span`.
    __device__ void load(const AttentionArguments<T>& a, const HeadShape& shape, const AttentionItem& item, int kv_head,
                         int first, const Span& span) {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const T* from[2] = {nullptr, nullptr};
        const float2* rotations[2] = {nullptr, nullptr};
        unmasked_first = 0;
        unmasked_end = INT_MAX;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int m = first + lane / 4 + 8 * i;
            visible[i] = {INT_MAX, 0};
            if (m >= item.num_vectors) continue;
            const QueryVector vector = query_vector(a.work, item, shape.num_heads / shape.num_kv_heads, kv_head, m);
            const int position = vector.position - span.base;
            visible[i] = visible_tokens(a.rule, span, position);
            unmasked_first = max(unmasked_first, visible[i].first);
            unmasked_end = min(unmasked_end, visible[i].end);
            if (visible[i].first >= visible[i].end) continue;
            from[i] = a.queries + a.query_layout.offset(vector.row, vector.head);
            if (a.rope != nullptr) rotations[i] = a.rope + static_cast<int64_t>(position) * (shape.head_dim / 2);
        }
#pragma unroll
        for (int step = 4; step < kWarp; step *= 2) {
            unmasked_end = min(unmasked_end, __shfl_xor_sync(kAllLanes, unmasked_end, step));
            unmasked_first = max(unmasked_first, __shfl_xor_sync(kAllLanes, unmasked_first, step));
        }
        __syncwarp();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int dim = step * 16 + r / 2 * 8 + lane % 4 * 2;
                const uint32_t pair = read(from[r % 2], rotations[r % 2], dim, shape.head_dim);
                if constexpr (Ring<T, kDim>::kSharedQueries) {
                    *reinterpret_cast<uint32_t*>(rows_ + (lane / 4 + r % 2 * 8) * Ring<T, kDim>::kStride + dim) = pair;
                } else {
                    operand_[step][r] = pair;
                }
            }
        }
        __syncwarp();
    }

    // Elements [16 step, 16 step + 16).
    __device__ void get(int step, uint32_t (&operand)[4]) const {
        if constexpr (Ring<T, kDim>::kSharedQueries) {
            const int lane = static_cast<int>(threadIdx.x) % kWarp;
            load_matrices(operand, rows_ + lane % 16 * Ring<T, kDim>::kStride + lane / 16 * 8 + step * 16);
        } else {
#pragma unroll
            for (int r = 0; r < 4; ++r) operand[r] = operand_[step][r];
        }
    }

  private:
    __device__ static uint32_t read_pair(const T* from, int dim, int head_dim) {
        return from != nullptr && dim < head_dim ? *reinterpret_cast<const uint32_t*>(from + dim) : 0U;
    }

    // Elements dim and dim + 1 of a row, rotated.
    __device__ static uint32_t read(const T* from, const float2* rotations, int dim, int head_dim) {
        const uint32_t pair = read_pair(from, dim, head_dim);
        if (rotations == nullptr || dim >= head_dim) return pair;
        const int half = head_dim / 2;
        // An element and the one that it is rotated with are in one lane where half is a multiple of 8, but the other
        // may not be loaded yet.
        const bool low = dim < half;
        const float2 mine = unpack_pair(pair, T());
        const float2 other = unpack_pair(read_pair(from, low ? dim + half : dim - half, head_dim), T());
        const float4 rotation = *reinterpret_cast<const float4*>(rotations + (low ? dim : dim - half));
        const float sign = low ? -1.0F : 1.0F;
        return pack_pair(mine.x * rotation.x + sign * other.x * rotation.y,
                         mine.y * rotation.z + sign * other.y * rotation.w, T());
    }

    static constexpr int kSteps = kDim / 16;
    T* const rows_;
    uint32_t operand_[Ring<T, kDim>::kSharedQueries ? 1 : kSteps][4];
};

// A warp's attention to tokens of an item: the softmax of its 16 vectors, and their output so far.
template <typename T, int kDim>
struct WarpAttention {
    OnlineSoftmax softmax[2];  // of the lane's two vectors; the sums are of its own tokens, until finish()
    Fragment<kDim> output{};

    // Attends to kTokens tokens, the first of them number `token` of the span.
    template <int kTokens>
    __device__ void attend(const AttentionArguments<T>& a, const Queries<T, kDim>& queries, const T* keys,
                           const T* values, int token) {
        Fragment<kTokens> scores{};
        multiply_keys(queries, keys, scores);
        score<ExactMath>(a.rule, scores);
        if (token < queries.unmasked_first || token + kTokens > queries.unmasked_end)
            mask(queries.visible, token, scores);
        float correction[2];
        weigh<ExactMath>(softmax, scores, correction);
        output.scale_rows(correction);
        add_values(scores, values);
    }

    // Adds up the sums of the lanes that share the vectors.
    __device__ void finish() {
#pragma unroll
        for (int i = 0; i < 2; ++i) softmax[i].sum = four_lanes_sum(softmax[i].sum);
    }

  private:
    static constexpr int kStride = Ring<T, kDim>::kStride;

    template <int kTokens>
    __device__ static void multiply_keys(const Queries<T, kDim>& queries, const T* keys, Fragment<kTokens>& scores) {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const T* const row = keys + (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
        for (int step = 0; step < kDim / 16; ++step) {
            uint32_t a[4];
            queries.get(step, a);
#pragma unroll
            for (int t = 0; t < kTokens; t += 16) {
                uint32_t b[4];
                load_matrices(b, row + t * kStride + step * 16);
                multiply_add(scores.octets[t / 8], a, b[0], b[1], T());
                multiply_add(scores.octets[t / 8 + 1], a, b[2], b[3], T());
            }
        }
    }

    template <int kTokens>
    __device__ void add_values(const Fragment<kTokens>& weights, const T* values) {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const T* const row = values + (lane % 8 + lane / 8 % 2 * 8) * kStride + lane / 16 * 8;
#pragma unroll
        for (int t = 0; t < kTokens; t += 16) {
            uint32_t operand[4];
            weights.template round_slice<T>(t / 16, operand);
#pragma unroll
            for (int d = 0; d < kDim; d += 16) {
                uint32_t b[4];
                load_matrices_transposed(b, row + t * kStride + d);
                multiply_add(output.octets[d / 8], operand, b[0], b[1], T());
                multiply_add(output.octets[d / 8 + 1], operand, b[2], b[3], T());
            }
        }
    }
};

// The warps' results in shared memory at the end of an item; outputs are not divided by their sums.
template <int kStride>
struct Results {
    float* outputs;  // [kMaxVectors, kStride]
    float* highest;  // [kMaxVectors]
    float* sums;     // [kMaxVectors]

    __device__ explicit Results(std::byte* shared)
        : outputs(reinterpret_cast<float*>(shared)),
          highest(outputs + kMaxVectors * kStride),
          sums(highest + kMaxVectors) {}

    template <typename T, int kDim>
    __device__ void put(const WarpAttention<T, kDim>& attention, int first_row, int num_rows) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = lane / 4 + 8 * i;
            if (row >= num_rows) continue;
            float* const to = outputs + (first_row + row) * kStride + lane % 4 * 2;
#pragma unroll
            for (int d = 0; d < kDim / 8; ++d) *reinterpret_cast<float2*>(to + d * 8) = attention.output.pair(d, i);
            if (lane % 4 == 0) {
                highest[first_row + row] = attention.softmax[i].highest;
                sums[first_row + row] = attention.softmax[i].sum;
            }
        }
    }
};

// Merges the kParts results of each vector, which are kRows apart, and writes the output or the partial result.
template <int kParts, typename T, int kStride>
__device__ void write_item(const AttentionArguments<T>& a, const HeadShape& shape, const AttentionItem& item,
                           int kv_head, const Results<kStride>& results) {
    const int quads = shape.head_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < item.num_vectors * quads; i += kThreads) {
        const int m = i / quads;
        const int dim = i % quads * 4;
        OnlineSoftmax softmaxes[kParts];
        float4 parts[kParts];
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
            const int at = m + p * kRows;
            softmaxes[p] = {results.highest[at], results.sums[at]};
            parts[p] = *reinterpret_cast<const float4*>(results.outputs + at * kStride + dim);
        }
        const Merged merged = Merged::of<ExactMath>(parts, softmaxes);
        const float sum = merged.softmax.sum;
        const float4 output = scaled(merged.output, sum == 0 ? 0.0F : a.rule.value_scale / sum);
        const float lse = merged.softmax.lse<ExactMath>();
        if (item.partial < 0) {
            const QueryVector vector = query_vector(a.work, item, shape.num_heads / shape.num_kv_heads, kv_head, m);
            store_output(a, vector.row, vector.head, dim, output);
            if (dim == 0) store_lse(a, shape, vector.row, vector.head, lse);
        } else {
            publish_partial(a, shape, kv_head, item.partial + m, dim, output, lse);
        }
    }
}

// kShared: all warps attend to all tokens, each for 16 of up to 64 vectors. Otherwise each attends to its own tokens
// for the same 16 vectors.
template <typename T, int kDim, bool kShared>
__device__ void run_item(const AttentionArguments<T>& a, const HeadShape& shape, const NarrowItem* from,
                         const AttentionItem& item, int kv_head, std::byte* shared) {
    using TheRing = Ring<T, kDim>;
    constexpr int kTokens = kShared && kDim <= 128 ? 32 : kWarpTokens;
    T* const ring = reinterpret_cast<T*>(shared);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int first_vector = kShared ? warp * kRows : 0;
    const int first_token = kShared ? 0 : warp * kWarpTokens;
    const bool active = first_vector < item.num_vectors;

    Loader<T, kDim> loader(a, shape, from, kv_head, ring);
#pragma unroll
    for (int i = 0; i < TheRing::kStages - 1; ++i) loader.load_next();
    Queries<T, kDim> queries(reinterpret_cast<T*>(shared + TheRing::kBytes));
    WarpAttention<T, kDim> attention;
    bool new_span = true;
    int stage = 0;
    for (Cursor cursor(a.work, item, from->span); !cursor.done(); new_span = cursor.advance()) {
        if (new_span && active) queries.load(a, shape, item, kv_head, first_vector, cursor.span());
        wait_for_copies<TheRing::kStages - 2>();
        if (kShared) {
            __syncthreads();
        } else {
            __syncwarp();
        }
        loader.load_next();
        const T* const keys = ring + 2 * stage * TheRing::kTensor;
#pragma unroll
        for (int t = 0; t < (kShared ? kNarrowTokens : kWarpTokens); t += kTokens) {
            const int token = first_token + t;
            if (!active || cursor.token() + token >= cursor.span().end_token) break;
            attention.template attend<kTokens>(a, queries, keys + token * TheRing::kStride,
                                               keys + TheRing::kTensor + token * TheRing::kStride,
                                               cursor.token() + token);
        }
        stage = stage == TheRing::kStages - 1 ? 0 : stage + 1;
    }
    wait_for_copies<0>();
    attention.finish();
    __syncthreads();  // all warps have finished with the ring
    const Results<TheRing::kOutputStride> results(shared);
    if (active) results.put(attention, warp * kRows, min(kRows, item.num_vectors - first_vector));
    __syncthreads();
    write_item<kShared ? 1 : kWarps>(a, shape, item, kv_head, results);
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kDim <= 128 ? 2 : 1)
    portable_kernel(const __grid_constant__ AttentionArguments<T> a, HeadShape shape) {
    std::byte* const shared = dynamic_shared();
    const int kv_head = static_cast<int>(blockIdx.x) % shape.num_kv_heads;
    const int block = static_cast<int>(blockIdx.x) / shape.num_kv_heads;
    for (int index = block; index >= 0;) {
        const NarrowItem* const from = a.work.narrow + index;
        const AttentionItem item = from->item;
        if (item.num_vectors == 0) break;
        if (item.num_vectors <= kRows) {
            run_item<T, kDim, false>(a, shape, from, item, kv_head, shared);
        } else {
            run_item<T, kDim, true>(a, shape, from, item, kv_head, shared);
        }
        index = from->next;
        __syncthreads();  // all warps have read the results
    }
    const NarrowItem& begin = a.work.narrow[block];
    merge_row_groups<4, kDim>(a, shape, kv_head, begin.first_merge, begin.num_merges, static_cast<int>(threadIdx.x),
                              kThreads);
}

template <typename T, int kDim>
Result<void> launch_portable(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks,
                             cudaStream_t stream) {
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks * shape.num_kv_heads)), dim3(kThreads),
                                   Ring<T, kDim>::kAllBytes};
    return launch(portable_kernel<T, kDim>, launch_shape, stream, arguments, shape);
}

}  // namespace

template <typename T>
Result<void> attend_portable(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks,
                             cudaStream_t stream) {
    if (shape.head_dim <= 64) return launch_portable<T, 64>(arguments, shape, blocks, stream);
    if (shape.head_dim <= 96) return launch_portable<T, 96>(arguments, shape, blocks, stream);
    if (shape.head_dim <= 128) return launch_portable<T, 128>(arguments, shape, blocks, stream);
    return launch_portable<T, 256>(arguments, shape, blocks, stream);
}

template Result<void> attend_portable(const AttentionArguments<__half>&, const HeadShape&, int, cudaStream_t);
template Result<void> attend_portable(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, cudaStream_t);

}  // namespace nanolith::cuda
