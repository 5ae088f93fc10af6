// Attention of up to 16 query vectors a KV head on Hopper: decode. The online softmax is that of Milakov and Gimelshein
// (2018) in the form of FlashAttention-2 (Dao, 2023).
//
// Tiling: a block of 8 warps on each multiprocessor takes a list of items one after the other, an item for one KV head.
// Every warp holds all 16 vectors and attends to its own kTokens of the block's 8 * kTokens: it has a ring of kStages
// stages of K and V of its own, which the bulk copy engine fills while it computes, across items too, and meets the
// other warps at an item's ends alone, where results merge. Shared memory has the copy engine's swizzle of 128 bytes,
// so that matrix loads meet no bank conflict. Queries are rotated anew where a span's base changes. Fp8 pages become
// float16 between shared memory and the products, which take the elements of a head and its outputs in another order
// for that.
//
// Bytes: K and V once for each item and KV head. Flops: 64 * tokens * head_dim. Bound by memory. Code that runs once is
// kept short and in loops: fetched from memory for the first time, an instruction costs more than its work.
#include "attention/narrow.h"

#include <cuda_fp8.h>

#include <type_traits>

#include "attention/merge.cuh"
#include "attention/page_map.h"
#include "device/dynamic_shared.cuh"
#include "device/exp2.cuh"
#include "device/mma.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kRows = 16;       // query vectors
constexpr int kBoxTokens = 16;  // of one copy: they never lie in two pages
constexpr int kRowBytes = 128;  // of one box and token
constexpr float kLog2E = 1.44269504088896341F;

// T: queries and output; P: pages; kDim: head_dim or the next size that there is a kernel for.
template <typename T_, typename P_, int kDim_>
struct Variant {
    using T = T_;
    using P = P_;
    static constexpr int kDim = kDim_;
    static constexpr int kWarps = kDim <= 128 ? 8 : 4;
    static constexpr int kThreads = kWarps * kWarp;
    static constexpr bool kFp8 = sizeof(P) == 1;
    using M = std::conditional_t<kFp8, __half, T>;  // what is multiplied
    static constexpr int kBoxDims = kRowBytes / static_cast<int>(sizeof(P));
    static constexpr int kBoxes = (kDim + kBoxDims - 1) / kBoxDims;  // side by side
    static constexpr int kTokens = kBoxes == 1 ? 32 : 16;            // of a warp at a time
    static constexpr int kBoxBytes = kTokens * kRowBytes;
    static constexpr int kTensorBytes = kBoxes * kBoxBytes;
    static constexpr int kStageBytes = 2 * kTensorBytes;
    static constexpr int kStages = kStageBytes <= 8192 ? 3 : 2;
    static constexpr int kQueryStride = kDim + 8;
    static constexpr bool kQueriesStay = kDim <= 128;                         // in registers
    static constexpr int kResultRows = kDim <= 64 ? 8 : kDim <= 128 ? 4 : 2;  // that are merged at once
    static constexpr int kResultStride = kDim + 4;
    static constexpr int kGroups = kTokens / kBoxTokens;  // of tokens that are copied together
};

template <typename V>
struct Shared {
    alignas(1024) std::byte ring[V::kWarps][V::kStages][V::kStageBytes];
    alignas(16) float results[V::kWarps][V::kResultRows][V::kResultStride];
    alignas(16) typename V::M queries[kRows][V::kQueryStride];
    float highest[V::kWarps][kRows];
    float sums[V::kWarps][kRows];
    Arrivals arrivals;
    uint64_t full[V::kWarps][V::kStages];
};

template <typename V>
struct Parameters {
    AttentionArguments<typename V::T> a;
    HeadShape shape;
    int group;
    int page_shift;
};

__device__ inline int warp_index() {
    return static_cast<int>(threadIdx.x) / kWarp;
}
__device__ inline int lane_index() {
    return static_cast<int>(threadIdx.x) % kWarp;
}

// Walks a warp's tokens of an item's spans.
template <typename V>
struct Cursor {
    const Span* next;
    int left;  // spans
    Span span;
    int token;

    __device__ Cursor(const WorkView& work, const NarrowItem& item)
        : next(work.spans + item.item.first_span),
          left(item.item.num_spans),
          span(item.span),
          token(span.first_token + warp_index() * V::kTokens) {
        if (left > 0) skip();
    }
    __device__ bool done() const { return left == 0; }
    __device__ void advance() {
        token += V::kWarps * V::kTokens;
        skip();
    }

  private:
    __device__ void skip() {
        while (token >= span.end_token) {
            if (--left == 0) return;
            span = *++next;
            token = span.first_token + warp_index() * V::kTokens;
        }
    }
};

// A stage of a warp's ring, and its barrier's phase.
template <typename V>
struct Place {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void advance() {
        if (++stage == V::kStages) {
            stage = 0;
            parity ^= 1U;
        }
    }
};

// Fills a warp's ring, stage after stage, through all of the block's items. Lane i finds the pages of a stage's group
// i; lane 0 starts the copies, which take their operands for the whole warp.
template <typename V>
class Ahead {
  public:
    __device__ Ahead(const Parameters<V>& p, const CUtensorMap* map, Shared<V>& shared, const NarrowItem* item,
                     int kv_head)
        : p_(p), map_(map), shared_(shared), item_(item), cursor_(p.a.work, *item), kv_head_(kv_head) {
        if (cursor_.done()) {
            next_item();
        } else {
            begin_item();
        }
    }

    // The next stage, if there is one.
    __device__ __forceinline__ void load() {
        if (cursor_.done()) return;
        copy();
        place_.advance();
        cursor_.advance();
        if (cursor_.done()) {
            next_item();
        } else {
            page_ = find_page();
        }
    }

  private:
    __device__ int token() const { return cursor_.token + lane_index() * kBoxTokens; }

    __device__ __forceinline__ int find_page() const {
        if (lane_index() >= V::kGroups || token() >= cursor_.span.end_token) return 0;
        return __ldg(p_.a.work.page_table + cursor_.span.first_page + (token() >> p_.page_shift));
    }

    // The item's first pages come with it.
    __device__ __forceinline__ void begin_item() {
        const bool first = cursor_.left == item_->item.num_spans && lane_index() < V::kGroups;
        page_ = first ? item_->pages[warp_index() * V::kGroups + lane_index()] : find_page();
    }

    __device__ __forceinline__ void next_item() {
        while (cursor_.done() && item_->next >= 0) {
            item_ = p_.a.work.narrow + item_->next;
            cursor_ = Cursor<V>(p_.a.work, *item_);
        }
        if (!cursor_.done()) begin_item();
    }

    __device__ __forceinline__ void copy() {
        int pages[V::kGroups];
#pragma unroll
        for (int g = 0; g < V::kGroups; ++g) pages[g] = __shfl_sync(kAllLanes, page_, g);
        if (lane_index() != 0) return;
        uint64_t* const barrier = &shared_.full[warp_index()][place_.stage];
        const int left = cursor_.span.end_token - cursor_.token;
        const int groups = min((left + kBoxTokens - 1) / kBoxTokens, V::kGroups);
        barrier_arrive_expect(barrier, static_cast<uint32_t>(groups * 2 * V::kBoxes * kBoxTokens * kRowBytes));
        std::byte* const to = shared_.ring[warp_index()][place_.stage];
#pragma unroll
        for (int g = 0; g < V::kGroups; ++g) {
            if (g >= groups) break;
            const int keys = ((pages[g] * 2 * p_.shape.num_kv_heads + kv_head_) << p_.page_shift) +
                             ((cursor_.token + g * kBoxTokens) & (p_.shape.page_size - 1));
            const int values = keys + (p_.shape.num_kv_heads << p_.page_shift);
#pragma unroll
            for (int b = 0; b < V::kBoxes; ++b) {
                std::byte* const box = to + b * V::kBoxBytes + g * kBoxTokens * kRowBytes;
                tma_load(map_, box, barrier, b * V::kBoxDims, keys);
                tma_load(map_, box + V::kTensorBytes, barrier, b * V::kBoxDims, values);
            }
        }
    }

    const Parameters<V>& p_;
    const CUtensorMap* map_;
    Shared<V>& shared_;
    const NarrowItem* item_;
    Cursor<V> cursor_;
    const int kv_head_;
    int page_ = 0;  // of the lane's group of the next stage
    Place<V> place_;
};

// Where vector m of an item stands: its row, its query head, and its position counted like the span's base.
struct Standing {
    int row;
    int head;
    int position;
};

template <typename V>
__device__ __forceinline__ Standing find_standing(const Parameters<V>& p, const NarrowItem& from, int kv_head, int m) {
    const int vector = from.item.first_vector + m;
    const int entry = vector / p.group;
    const int head = kv_head * p.group + vector - entry * p.group;
    if (entry == 0) return {from.row, head, from.position};
    const QueryRow query = p.a.work.queries[from.item.first_query + entry];
    return {query.row, head, p.a.work.positions[query.row] - query.base};
}

// Brings the item's vectors to shared memory as they are to stand for `span`; zeros where there are none.
template <typename V>
__device__ __forceinline__ void load_queries(const Parameters<V>& p, const NarrowItem& from, int base, int kv_head,
                                             Shared<V>& shared) {
    using T = typename V::T;
    constexpr int kPairs = V::kDim / 2;
    const int half = p.shape.head_dim / 2;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPairs / 2; i += V::kThreads) {
        const int m = i / (kPairs / 2);
        const int dim = i % (kPairs / 2) * 2;  // and dim + 1, dim + half, dim + half + 1
        float2 low = make_float2(0, 0);
        float2 high = make_float2(0, 0);
        const bool inside = dim < half;
        if (m < from.item.num_vectors && inside) {
            const Standing standing = find_standing(p, from, kv_head, m);
            const int position = standing.position - base;
            const T* const query = p.a.queries + p.a.query_layout.offset(standing.row, standing.head);
            low = unpack_pair(*reinterpret_cast<const uint32_t*>(query + dim), T());
            high = unpack_pair(*reinterpret_cast<const uint32_t*>(query + dim + half), T());
            if (p.a.rope != nullptr && position >= 0) {
                const float4 turn =
                    *reinterpret_cast<const float4*>(p.a.rope + static_cast<int64_t>(position) * half + dim);
                const float2 before = low;
                low = make_float2(before.x * turn.x - high.x * turn.y, before.y * turn.z - high.y * turn.w);
                high = make_float2(high.x * turn.x + before.x * turn.y, high.y * turn.z + before.y * turn.w);
            }
        }
        typename V::M* const row = shared.queries[m];
        // Pairs beyond head_dim are zeros behind it.
        *reinterpret_cast<uint32_t*>(row + (inside ? dim : dim + half)) = pack_pair(low.x, low.y, typename V::M());
        *reinterpret_cast<uint32_t*>(row + (inside ? dim + half : dim + kPairs)) =
            pack_pair(high.x, high.y, typename V::M());
    }
}

// What a lane's two rows see of a span.
struct Sight {
    Visible rows[2];
    int whole_first;  // all rows of the item see the tokens [whole_first, whole_end)
    int whole_end;
};

template <typename V>
__device__ __forceinline__ Sight find_sight(const Parameters<V>& p, const NarrowItem& from, const Span& span,
                                            int kv_head) {
    Sight sight;
    sight.whole_first = 0;
    sight.whole_end = INT_MAX;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int m = lane_index() / 4 + 8 * i;
        sight.rows[i] = {0, 0};
        if (m >= from.item.num_vectors) continue;
        sight.rows[i] = visible_tokens(p.a, span, find_standing(p, from, kv_head, m).position - span.base);
        sight.whole_first = max(sight.whole_first, sight.rows[i].first);
        sight.whole_end = min(sight.whole_end, sight.rows[i].end);
    }
#pragma unroll
    for (int step = 4; step < kWarp; step *= 2) {
        sight.whole_first = max(sight.whole_first, __shfl_xor_sync(kAllLanes, sight.whole_first, step));
        sight.whole_end = min(sight.whole_end, __shfl_xor_sync(kAllLanes, sight.whole_end, step));
    }
    return sight;
}

// The left operands of the first product, 16 elements of the head each.
template <typename V>
struct Queries {
    uint32_t operands[V::kQueriesStay ? V::kDim / 16 : 1][4];

    __device__ __forceinline__ static void read(const Shared<V>& shared, int step, uint32_t (&operand)[4]) {
        if constexpr (V::kFp8) {
            // A lane's elements 4c to 4c + 3, which is where four bytes of K are.
            const auto* const row = &shared.queries[lane_index() / 4][step * 16 + lane_index() % 4 * 4];
            const auto low = *reinterpret_cast<const uint2*>(row);
            const auto high = *reinterpret_cast<const uint2*>(row + 8 * V::kQueryStride);
            operand[0] = low.x;
            operand[1] = high.x;
            operand[2] = low.y;
            operand[3] = high.y;
        } else {
            load_matrices(operand, &shared.queries[lane_index() % 16][step * 16 + lane_index() / 16 * 8]);
        }
    }
    __device__ __forceinline__ void load(const Shared<V>& shared) {
        if constexpr (V::kQueriesStay) {
#pragma unroll
            for (int step = 0; step < V::kDim / 16; ++step) read(shared, step, operands[step]);
        }
    }
    __device__ __forceinline__ void get(const Shared<V>& shared, int step, uint32_t (&operand)[4]) const {
        if constexpr (V::kQueriesStay) {
#pragma unroll
            for (int i = 0; i < 4; ++i) operand[i] = operands[step][i];
        } else {
            read(shared, step, operand);
        }
    }
};

// Two fp8 numbers, in the lower half of `pair`, as two halves.
__device__ __forceinline__ uint32_t widen(uint32_t pair) {
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair & 0xffffU), __NV_E4M3);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}

// Where the swizzle has put the 16 bytes number `piece` of a token.
__device__ __forceinline__ int swizzled(int token, int piece) {
    return token * kRowBytes + ((piece ^ token) & 7) * 16;
}

template <typename V>
struct Softmax {
    static constexpr int kTiles = V::kTokens / 8;
    using M = typename V::M;

    float highest[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0, 0};  // of the lane's own tokens
    float output[V::kDim / 8][4] = {};

    __device__ __forceinline__ void attend(const Parameters<V>& p, const Shared<V>& shared, const Queries<V>& queries,
                                           const Sight& sight, const std::byte* keys, int token) {
        float scores[kTiles][4] = {};
        multiply_keys(shared, queries, keys, scores);
        scale(p.a, scores);
        if (token < sight.whole_first || token + V::kTokens > sight.whole_end) hide(sight, token, scores);
        weigh(scores);
        add_values(scores, keys + V::kTensorBytes);
    }

  private:
    __device__ __forceinline__ static void multiply_keys(const Shared<V>& shared, const Queries<V>& queries,
                                                         const std::byte* keys, float (&scores)[kTiles][4]) {
        const int lane = lane_index();
        // Two sums for each score, so that fewer products wait for the one before.
        float odd[kTiles][4] = {};
#pragma unroll
        for (int step = 0; step < V::kDim / 16; ++step) {
            uint32_t a[4];
            queries.get(shared, step, a);
            float(&to)[kTiles][4] = step % 2 == 0 ? scores : odd;
#pragma unroll
            for (int t = 0; t < V::kTokens; t += 16) {
                if constexpr (V::kFp8) {
                    const std::byte* const box = keys + step / 8 * V::kBoxBytes + lane % 4 * 4;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int at = t + 8 * half + lane / 4;
                        const uint32_t four = *reinterpret_cast<const uint32_t*>(box + swizzled(at, step % 8));
                        multiply_add(to[t / 8 + half], a, widen(four), widen(four >> 16), M());
                    }
                } else {
                    uint32_t b[4];
                    const int at = t + lane % 8 + lane / 16 * 8;
                    load_matrices(b, keys + step / 4 * V::kBoxBytes + swizzled(at, step % 4 * 2 + lane / 8 % 2));
                    multiply_add(to[t / 8], a, b[0], b[1], M());
                    multiply_add(to[t / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[t][i] += odd[t][i];
        }
    }

    // To base 2.
    __device__ __forceinline__ static void scale(const AttentionArguments<typename V::T>& a,
                                                 float (&scores)[kTiles][4]) {
        const float factor = a.scale * kLog2E;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[t][i] *= factor;
        }
        if (a.softcap == 0) return;
        // tanh(x) = 1 - 2 / (e^2x + 1), with an error near float32's own of the cap.
        const float cap = a.softcap * kLog2E;
        const float twice = 2.0F * kLog2E / cap;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[t][i] = cap - __fdividef(2.0F * cap, fast_exp2(scores[t][i] * twice) + 1.0F);
            }
        }
    }

    __device__ __forceinline__ static void hide(const Sight& sight, int token, float (&scores)[kTiles][4]) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = token + t * 8 + lane_index() % 4 * 2 + i % 2;
                if (at < sight.rows[i / 2].first || at >= sight.rows[i / 2].end) scores[t][i] = -INFINITY;
            }
        }
    }

    // Scores become weights relative to the highest score so far.
    __device__ __forceinline__ void weigh(float (&scores)[kTiles][4]) {
        float correction[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float top = highest[i];
#pragma unroll
            for (int t = 0; t < kTiles; ++t) top = fmaxf(top, fmaxf(scores[t][2 * i], scores[t][2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
            // Where all is hidden so far any finite number will do: the weights are zero.
            const float base = top == -INFINITY ? 0.0F : top;
            correction[i] = fast_exp2(highest[i] - base);
            highest[i] = top;
            sum[i] *= correction[i];
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
                scores[t][2 * i] = fast_exp2(scores[t][2 * i] - base);
                scores[t][2 * i + 1] = fast_exp2(scores[t][2 * i + 1] - base);
                sum[i] += scores[t][2 * i] + scores[t][2 * i + 1];
            }
        }
        if (__all_sync(kAllLanes, correction[0] == 1.0F && correction[1] == 1.0F)) return;
#pragma unroll
        for (int d = 0; d < V::kDim / 8; ++d) {
            output[d][0] *= correction[0];
            output[d][1] *= correction[0];
            output[d][2] *= correction[1];
            output[d][3] *= correction[1];
        }
    }

    __device__ __forceinline__ void add_values(const float (&weights)[kTiles][4], const std::byte* values) {
        const int lane = lane_index();
#pragma unroll
        for (int t = 0; t < V::kTokens; t += 16) {
            const float(&low)[4] = weights[t / 8];
            const float(&high)[4] = weights[t / 8 + 1];
            const uint32_t a[4] = {pack_pair(low[0], low[1], M()), pack_pair(low[2], low[3], M()),
                                   pack_pair(high[0], high[1], M()), pack_pair(high[2], high[3], M())};
            const int at = t + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
            for (int d = 0; d < V::kDim; d += V::kFp8 ? 32 : 16) {
                uint32_t b[4];
                if constexpr (V::kFp8) {
                    load_matrices_transposed(b,
                                             values + d / 128 * V::kBoxBytes + swizzled(at, d % 128 / 16 + lane / 16));
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        // Bytes: two elements of one token, then the same of the next. Elements apart, tokens together.
                        const uint32_t first = __byte_perm(b[2 * half], 0, 0x3120);
                        const uint32_t second = __byte_perm(b[2 * half + 1], 0, 0x3120);
                        float(&even)[4] = output[(d + 16 * half) / 8];
                        float(&odd)[4] = output[(d + 16 * half) / 8 + 1];
                        multiply_add(even, a, widen(first), widen(second), M());
                        multiply_add(odd, a, widen(first >> 16), widen(second >> 16), M());
                    }
                } else {
                    load_matrices_transposed(b, values + d / 64 * V::kBoxBytes + swizzled(at, d % 64 / 8 + lane / 16));
                    multiply_add(output[d / 8], a, b[0], b[1], M());
                    multiply_add(output[d / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
    }
};

// Rows of V from `left` on hold anything, which even a weight of zero would not hide.
template <typename V>
__device__ __forceinline__ void clear_values(std::byte* values, int left) {
    constexpr int kPieces = kRowBytes / 16;
#pragma unroll 1
    for (int i = lane_index(); i < (V::kTokens - left) * kPieces * V::kBoxes; i += kWarp) {
        const int token = left + i / (kPieces * V::kBoxes);
        const int piece = i % (kPieces * V::kBoxes);
        *reinterpret_cast<uint4*>(values + piece / kPieces * V::kBoxBytes + token * kRowBytes + piece % kPieces * 16) =
            make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();  // the next copy into this stage comes after these
    __syncwarp();
}

// Leaves the warp's results of the vectors [first, first + kResultRows) in shared memory, not divided by their sums.
template <typename V>
__device__ __forceinline__ void put_results(const Softmax<V>& softmax, int first, Shared<V>& shared) {
    const int c = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane_index() / 4 + 8 * i - first;
        if (row < 0 || row >= V::kResultRows) continue;
        float* const to = shared.results[warp_index()][row];
#pragma unroll
        for (int d = 0; d < V::kDim / 8; d += 2) {
            const float(&even)[4] = softmax.output[d];
            const float(&odd)[4] = softmax.output[d + 1];
            if constexpr (V::kFp8) {
                // Even and odd elements of 16.
                *reinterpret_cast<float4*>(to + d * 8 + c * 4) =
                    make_float4(even[2 * i], odd[2 * i], even[2 * i + 1], odd[2 * i + 1]);
            } else {
                *reinterpret_cast<float2*>(to + d * 8 + c * 2) = make_float2(even[2 * i], even[2 * i + 1]);
                *reinterpret_cast<float2*>(to + d * 8 + 8 + c * 2) = make_float2(odd[2 * i], odd[2 * i + 1]);
            }
        }
    }
}

template <typename V>
__device__ __forceinline__ void put_sums(Softmax<V>& softmax, Shared<V>& shared) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        softmax.sum[i] += __shfl_xor_sync(kAllLanes, softmax.sum[i], 1);
        softmax.sum[i] += __shfl_xor_sync(kAllLanes, softmax.sum[i], 2);
        if (lane_index() % 4 != 0) continue;
        shared.highest[warp_index()][lane_index() / 4 + 8 * i] = softmax.highest[i];
        shared.sums[warp_index()][lane_index() / 4 + 8 * i] = softmax.sum[i];
    }
}

// Merges the warps' results of vectors from `first` on and writes them where the item says.
template <typename V>
__device__ __forceinline__ void write_results(const Parameters<V>& p, const NarrowItem& from, int kv_head, int first,
                                              const Shared<V>& shared) {
    const AttentionItem& item = from.item;
    const int quads = p.shape.head_dim / 4;
    const int rows = min(V::kResultRows, item.num_vectors - first);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows * quads; i += V::kThreads) {
        const int row = i / quads;
        const int dim = (i - row * quads) * 4;
        const int m = first + row;
        float top = -INFINITY;
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) top = fmaxf(top, shared.highest[w][m]);
        float sum = 0;
        float4 output = make_float4(0, 0, 0, 0);
#pragma unroll 2
        for (int w = 0; w < V::kWarps; ++w) {
            const float weight = shared.highest[w][m] == -INFINITY ? 0.0F : fast_exp2(shared.highest[w][m] - top);
            const float4 part = *reinterpret_cast<const float4*>(&shared.results[w][row][dim]);
            sum = fmaf(weight, shared.sums[w][m], sum);
            output.x = fmaf(weight, part.x, output.x);
            output.y = fmaf(weight, part.y, output.y);
            output.z = fmaf(weight, part.z, output.z);
            output.w = fmaf(weight, part.w, output.w);
        }
        const float inverse = sum == 0 ? 0.0F : p.a.value_scale / sum;
        output = make_float4(output.x * inverse, output.y * inverse, output.z * inverse, output.w * inverse);
        const float lse = sum == 0 ? -INFINITY : top + log2f(sum);
        if (item.partial < 0) {
            const Standing standing = find_standing(p, from, kv_head, m);
            store_output(p.a, standing.row, standing.head, dim, output);
            if (dim == 0) store_lse(p.a, p.shape, standing.row, standing.head, lse);
        } else {
            const int64_t at = kv_head * p.a.partial.capacity + item.partial + m;
            *reinterpret_cast<float4*>(p.a.partial.outputs + at * p.shape.head_dim + dim) = output;
            if (dim == 0) p.a.partial.sums[at] = lse;
        }
    }
}

template <typename V>
__device__ __forceinline__ void run_item(const Parameters<V>& p, const NarrowItem& from, int kv_head, Shared<V>& shared,
                                         Ahead<V>& ahead, Place<V>& use) {
    const int num_spans = from.item.num_spans;
    Softmax<V> softmax;
    Queries<V> queries;
    Cursor<V> cursor(p.a.work, from);
    // One span after the other, since all warps share the queries in shared memory.
#pragma unroll 1
    for (int s = 0; s < num_spans; ++s) {
        const Span span = s == 0 ? from.span : p.a.work.spans[from.item.first_span + s];
        if (s > 0) __syncthreads();
        load_queries<V>(p, from, span.base, kv_head, shared);
        const Sight sight = find_sight<V>(p, from, span, kv_head);
        __syncthreads();
        queries.load(shared);
#pragma unroll 1
        while (!cursor.done() && cursor.left == num_spans - s) {
            std::byte* const keys = shared.ring[warp_index()][use.stage];
            barrier_wait(&shared.full[warp_index()][use.stage], use.parity, "a stage");
            const int left = span.end_token - cursor.token;
            if (left < V::kTokens) clear_values<V>(keys + V::kTensorBytes, left);
            softmax.attend(p, shared, queries, sight, keys, cursor.token);
            __syncwarp();
            ahead.load();
            use.advance();
            cursor.advance();
        }
    }
    put_sums<V>(softmax, shared);
#pragma unroll 1
    for (int first = 0; first < from.item.num_vectors; first += V::kResultRows) {
        put_results<V>(softmax, first, shared);
        __syncthreads();
        write_results<V>(p, from, kv_head, first, shared);
        __syncthreads();
    }
}

template <typename V>
__global__ void __launch_bounds__(V::kThreads, 1)
    narrow_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ Parameters<V> p) {
    Shared<V>& shared = *reinterpret_cast<Shared<V>*>(dynamic_shared_1024());
    const int kv_head = static_cast<int>(blockIdx.x) % p.shape.num_kv_heads;
    int index = static_cast<int>(blockIdx.x) / p.shape.num_kv_heads;
    if (threadIdx.x == 0) tma_prefetch_map(&map);
    if (p.a.work.narrow[index].item.num_vectors == 0) return;
    if (threadIdx.x < V::kWarps * V::kStages) {
        barrier_init(&shared.full[0][0] + threadIdx.x, 1);
        fence_barrier_init();
    }
    __syncthreads();
    Ahead<V> ahead(p, &map, shared, p.a.work.narrow + index, kv_head);
#pragma unroll 1
    for (int i = 0; i < V::kStages; ++i) ahead.load();
    Place<V> use;
    int count = 0;  // of arrivals
#pragma unroll 1
    while (index >= 0) {
        const NarrowItem& from = p.a.work.narrow[index];
        run_item<V>(p, from, kv_head, shared, ahead, use);
        if (from.item.partial >= 0) note_arrivals(p.a, from.item, shared.arrivals, count);
        if (arrivals_full(count, kRows)) finish_arrivals(p.a, p.shape, kv_head, shared.arrivals, count);
        index = from.next;
    }
    if (count > 0) finish_arrivals(p.a, p.shape, kv_head, shared.arrivals, count);
}

template <typename V>
Result<void> start(const AttentionArguments<typename V::T>& arguments, const HeadShape& shape, int blocks,
                   cudaStream_t stream) {
    constexpr CUtensorMapDataType kType = V::kFp8                                 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                          : std::is_same_v<typename V::T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    NL_ASSIGN(const CUtensorMap map,
              map_pages(arguments.pages, kType, static_cast<int>(sizeof(typename V::P)), shape, kBoxTokens));
    Parameters<V> parameters;
    parameters.a = arguments;
    parameters.shape = shape;
    parameters.group = shape.num_heads / shape.num_kv_heads;
    parameters.page_shift = 0;
    while ((1 << parameters.page_shift) < shape.page_size) ++parameters.page_shift;
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks * shape.num_kv_heads)), dim3(V::kThreads),
                                   sizeof(Shared<V>) + 1024};
    return launch(narrow_kernel<V>, launch_shape, stream, map, parameters);
}

template <typename T, typename P>
Result<void> start_for_head_dim(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks,
                                cudaStream_t stream) {
    if (shape.head_dim <= 64) return start<Variant<T, P, 64>>(arguments, shape, blocks, stream);
    if (shape.head_dim <= 96) return start<Variant<T, P, 96>>(arguments, shape, blocks, stream);
    if (shape.head_dim <= 128) return start<Variant<T, P, 128>>(arguments, shape, blocks, stream);
    return start<Variant<T, P, 256>>(arguments, shape, blocks, stream);
}

}  // namespace

bool narrow_takes(const HeadShape& shape, int major) {
    if (major != 9 || shape.head_dim > kMaxHeadDim) return false;
    // Where it was built for older devices alone the kernel is there, but traps.
    cudaFuncAttributes attributes{};
    void (*const kernel)(CUtensorMap, Parameters<Variant<__half, __half, 64>>) =
        narrow_kernel<Variant<__half, __half, 64>>;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.ptxVersion >= 90;
}

template <typename T>
Result<void> attend_narrow(const AttentionArguments<T>& arguments, const HeadShape& shape, int blocks, bool fp8,
                           cudaStream_t stream) {
    return fp8 ? start_for_head_dim<T, __nv_fp8_e4m3>(arguments, shape, blocks, stream)
               : start_for_head_dim<T, T>(arguments, shape, blocks, stream);
}

template Result<void> attend_narrow(const AttentionArguments<__half>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> attend_narrow(const AttentionArguments<__nv_bfloat16>&, const HeadShape&, int, bool,
                                    cudaStream_t);

}  // namespace nanolith::cuda
