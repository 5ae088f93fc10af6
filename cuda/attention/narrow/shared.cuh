// What the parts of the narrow kernel (narrow.cu) share: its variants, the layout of shared memory, and the steps.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention/attention.h"
#include "attention/merge/merge.cuh"
#include "device/mbarrier.cuh"
#include "device/prefetch.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda::narrow {

constexpr int kVectors = 16;     // of an item at most
constexpr int kPageTokens = 16;  // of each of NarrowItem::pages
constexpr int kRowBytes = 128;   // of one box and token
constexpr int kSteps = 2;        // that are ready for the consumers at once

// T: queries and output; P: pages; kDim: head_dim or the next size that there is a variant for. kWhole: head_dim is
// kDim, and one copy brings whole heads.
template <typename T_, typename P_, int kDim_, bool kWhole_>
struct Variant {
    using T = T_;
    using P = P_;
    static constexpr int kDim = kDim_;
    static constexpr int kWarps = kDim <= 128 ? 8 : 4;  // that consume
    static constexpr int kConsumers = kWarps * kWarp;
    static constexpr int kThreads = kConsumers + 4 * kWarp;  // the last warpgroup loads and prepares
    static constexpr bool kSharesRegisters = kDim > 64;      // smaller heads do with what a block begins with
    static constexpr int kConsumerRegisters = kWarps == 8 ? 216 : 248;
    static constexpr int kProducerRegisters = 72;
    // A block begins with as many of the 65,536 for each thread, in eights; who asks for more waits forever.
    static constexpr int kRegisters = 65536 / kThreads / 8 * 8;
    static_assert(kConsumers * kConsumerRegisters + 4 * kWarp * kProducerRegisters <= kThreads * kRegisters);
    static constexpr bool kFp8 = sizeof(P) == 1;
    using M = std::conditional_t<kFp8, __half, T>;  // what is multiplied
    static constexpr int kBoxDims = kRowBytes / static_cast<int>(sizeof(P));
    static constexpr int kBoxes = (kDim + kBoxDims - 1) / kBoxDims;  // side by side
    static constexpr bool kWhole = kWhole_ || kBoxes == 1;
    static constexpr int kPairs = kWarps / 2;                  // of consuming warps
    static constexpr int kWarpTokens = kBoxes == 1 ? 32 : 16;  // of a tile that are one warp's
    static constexpr int kTokens = 2 * kWarpTokens;            // of a tile, which is a pair's
    static constexpr int kTensorBytes = kBoxes * kTokens * kRowBytes;
    static constexpr int kTileBytes = 2 * kTensorBytes;
    static constexpr int kStages = 3;  // of each pair
    static constexpr int kTiles = kStages * kPairs;
    static constexpr int kQueryStride = kDim + 8;
    static constexpr bool kQueriesStay = kDim <= 128;                         // in registers
    static constexpr int kResultRows = kDim <= 64 ? 8 : kDim <= 128 ? 4 : 2;  // that are merged at once
    static constexpr int kResultStride = kDim + 4;
    static constexpr int kMergers = 128;  // threads that merge these, by turns
    static_assert(kResultRows * kDim / 4 <= kMergers && kConsumers % kMergers == 0);

    // Where a tile's copy of K or V has the 16 bytes `piece` (0 to 7) of a token's box: swizzled, so that matrix loads
    // meet no bank conflict. Whole heads come in eights of tokens.
    __device__ static int place(int token, int box, int piece) {
        const int swizzled = ((piece ^ token) & 7) * 16;
        if constexpr (kWhole) return (token / 8 * kBoxes + box) * 8 * kRowBytes + token % 8 * kRowBytes + swizzled;
        return (box * kTokens + token) * kRowBytes + swizzled;
    }
};

// One span of an item, and how the item's vectors stand to it.
template <typename V>
struct Step {
    alignas(16) typename V::M queries[kVectors][V::kQueryStride];  // rotated for the span
    AttentionItem item;
    int first_token;
    int end_token;
    bool begins;      // the item
    bool ends;        // the item
    bool ends_block;  // nothing comes after it
    int rows[kVectors];
    int heads[kVectors];
    RowPartials rest[kVectors];  // of the vector's unit, where the item merges it
    int seen_first[kVectors];    // of vector m, tokens [seen_first[m], seen_end[m])
    int seen_end[kVectors];
    int all_first;  // all vectors see the tokens [all_first, all_end)
    int all_end;
};

// Of a warp's weights of one vector: powers of two relative to the highest score.
struct alignas(8) WarpSum {
    float highest;
    float sum;
};

template <typename V>
struct Shared {
    alignas(1024) std::byte tiles[V::kTiles][V::kTileBytes];
    alignas(16) float results[V::kWarps][V::kResultRows][V::kResultStride];
    Step<V> steps[kSteps];
    WarpSum sums[kVectors][V::kWarps];
    uint64_t full[V::kTiles];
    uint64_t empty[V::kTiles];
    uint64_t step_full[kSteps];
    uint64_t step_empty[kSteps];
    uint64_t results_full;
    uint64_t results_empty;
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

// For one thread of each warp: a barrier's address must be the same in a whole warp, or they are made one
// after the other, slowly.
template <typename V>
__device__ __forceinline__ void init_barriers(Shared<V>& shared, int warp) {
    if (warp == 0) {
#pragma unroll
        for (int i = 0; i < V::kTiles; ++i) barrier_init(&shared.full[i], 2);  // K and V
    } else if (warp == 1) {
#pragma unroll
        for (int i = 0; i < V::kTiles; ++i) barrier_init(&shared.empty[i], 2);
    } else if (warp == 2) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            barrier_init(&shared.step_full[i], kWarp);
            barrier_init(&shared.step_empty[i], V::kConsumers);
        }
        barrier_init(&shared.results_full, V::kConsumers);
        barrier_init(&shared.results_empty, V::kMergers);
    }
    fence_barrier_init();
}

// An item in a warp's registers, a word in each lane: one read of memory, and the next item's can go on meanwhile.
class ItemWords {
  public:
    __device__ explicit ItemWords(const NarrowItem* item)
        : word_(__ldg(reinterpret_cast<const int*>(item) + lane_index())) {}

    __device__ AttentionItem item() const { return {get(0), get(1), get(2), get(3), get(4), get(5)}; }
    __device__ int num_vectors() const { return get(offsetof(AttentionItem, num_vectors) / 4); }
    __device__ int num_spans() const { return get(offsetof(AttentionItem, num_spans) / 4); }
    __device__ int first_span() const { return get(offsetof(AttentionItem, first_span) / 4); }
    __device__ int next() const { return get(offsetof(NarrowItem, next) / 4); }
    __device__ int row() const { return get(offsetof(NarrowItem, row) / 4); }
    __device__ int position() const { return get(offsetof(NarrowItem, position) / 4); }
    __device__ int first_merge() const { return get(offsetof(NarrowItem, first_merge) / 4); }
    __device__ int num_merges() const { return get(offsetof(NarrowItem, num_merges) / 4); }
    __device__ Span span() const {
        constexpr int kAt = offsetof(NarrowItem, span) / 4;
        return {get(kAt), get(kAt + 1), get(kAt + 2), get(kAt + 3)};
    }
    // Lane i's: that of the first span's 16 tokens number i.
    __device__ int page() const {
        return __shfl_sync(kAllLanes, word_, static_cast<int>(offsetof(NarrowItem, pages)) / 4 + lane_index() % 16);
    }

  private:
    __device__ int get(size_t i) const { return __shfl_sync(kAllLanes, word_, static_cast<int>(i)); }

    int word_;
};
static_assert(sizeof(NarrowItem) == kWarp * sizeof(int) && offsetof(NarrowItem, item) == 0);
static_assert(sizeof(AttentionItem) == 6 * sizeof(int) && offsetof(AttentionItem, partial) == 5 * sizeof(int));

// Calls visit(span, index, item's words) for each span of each of a block's items in turn, reading ahead. An item
// without spans has an empty one. visit returns nothing; `last` tells it that nothing comes after.
template <typename Visit>
__device__ __forceinline__ void for_each_span(const WorkView& work, ItemWords words, const Visit& visit) {
    for (;;) {
        const int next = words.next();
        const ItemWords following(work.narrow + max(next, 0));
        const int num_spans = words.num_spans();
        Span span = num_spans > 0 ? words.span() : Span{0, 0, 0, 0};
        for (int s = 0;;) {
            const bool ends = s + 1 >= num_spans;
            visit(words, span, s, ends, ends && next < 0);
            if (ends) break;
            span = work.spans[words.first_span() + ++s];
        }
        if (next < 0) return;
        words = following;
    }
}

}  // namespace nanolith::cuda::narrow
