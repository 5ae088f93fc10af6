// What the parts of the narrow kernel (narrow.cu) share: its variants, the layout of shared memory, and the steps.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention/attention.h"
#include "attention/common/online_softmax.cuh"
#include "attention/merge/merge.cuh"
#include "attention/narrow/narrow.h"
#include "device/mbarrier.cuh"
#include "device/prefetch.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda::narrow {

constexpr int kVectors = 16;     // of an item at most
constexpr int kPageTokens = 16;  // of each of NarrowItem::pages
constexpr int kRowBytes = 128;   // of a token in one box of a copy
constexpr int kSteps = 2;        // that can be ready for the consumers

// Numbers of named barriers. kStartBarrier: the consumers wait until the other warps have initialised the barriers in
// shared memory; these arrive and do not wait. kLoadBarrier: the two loading warps wait for each other, because each
// has initialised barriers that both use.
constexpr int kStartBarrier = 1;
constexpr int kLoadBarrier = 2;

// A compile-time variant. T: type of queries and output; P: of the pages; kDim: head_dim, or the next larger size that
// there is a variant for. kWhole: head_dim is kDim, and one copy loads whole heads of some tokens.
template <typename T_, typename P_, int kDim_, bool kWhole_>
struct Variant {
    using T = T_;
    using P = P_;
    static constexpr int kDim = kDim_;
    static constexpr int kWarps = kDim <= 128 ? 8 : 4;  // consumer warps
    static constexpr int kConsumers = kWarps * kWarp;
    static constexpr int kThreads = kConsumers + 4 * kWarp;  // the last warpgroup loads tiles and prepares steps
    static constexpr bool kSharesRegisters = kDim > 64;      // smaller heads need no more than the launch gives
    static constexpr bool kAppends = narrow_appends(kDim, sizeof(P) == 1);
    static constexpr int kConsumerRegisters = kWarps == 8 ? 208 : 248;
    static constexpr int kProducerRegisters = 88;
    // A launch gives each thread an equal share of the 65,536 registers, rounded down to a multiple of 8. Warpgroups
    // that would together have more than these would wait forever (setmaxnreg).
    static constexpr int kRegisters = 65536 / kThreads / 8 * 8;
    static_assert(kConsumers * kConsumerRegisters + 4 * kWarp * kProducerRegisters <= kThreads * kRegisters);
    static constexpr bool kFp8 = sizeof(P) == 1;
    using M = std::conditional_t<kFp8, __half, T>;  // type of the products' operands
    static constexpr int kBoxDims = kRowBytes / static_cast<int>(sizeof(P));
    static constexpr int kBoxes = (kDim + kBoxDims - 1) / kBoxDims;  // that make up a head
    static constexpr bool kWhole = kWhole_ || kBoxes == 1;
    static constexpr int kPairs = kWarps / 2;                  // of consumer warps
    static constexpr int kWarpTokens = kBoxes == 1 ? 32 : 16;  // tokens of a tile that one warp of a pair attends to
    static constexpr int kTokens = 2 * kWarpTokens;            // tokens of a tile, which one pair attends to
    static constexpr int kTokenBytes = kBoxes * kRowBytes;     // of a token's key or value in a tile
    static constexpr int kTensorBytes = kBoxes * kTokens * kRowBytes;
    static constexpr int kTileBytes = 2 * kTensorBytes;
    static constexpr int kStages = 3;  // tiles in shared memory for each pair
    static constexpr int kTiles = kStages * kPairs;
    static constexpr int kQueryStride = kDim + 8;
    static constexpr bool kQueriesInRegisters = kDim <= 128;
    static constexpr int kResultRows = kDim <= 64    ? 8
                                       : kDim <= 128 ? 4
                                                     : 2;  // vectors whose results are merged at once
    static constexpr int kResultStride = kDim + 4;
    static constexpr int kMergers = 128;  // threads that merge these; the sets of kMergers consumers alternate
    static_assert(kResultRows * kDim / 4 <= kMergers && kConsumers % kMergers == 0);

    // Offset in a tile's K or V of the 16-byte column `column` (0 to 7) of a token in a box, in bytes. The copy
    // engine's 128-byte swizzle keeps matrix loads free of bank conflicts. Whole heads are stored in octets of tokens.
    __device__ static int swizzle_offset(int token, int box, int column) {
        const int swizzled = ((column ^ token) & 7) * 16;
        if constexpr (kWhole) return (token / 8 * kBoxes + box) * 8 * kRowBytes + token % 8 * kRowBytes + swizzled;
        return (box * kTokens + token) * kRowBytes + swizzled;
    }
};

// What consumers do next: one span of an item, the item's queries rotated for it, and the tokens that they attend to.
template <typename V>
struct Step {
    alignas(16) typename V::M queries[kVectors][V::kQueryStride];  // rotated for the span's base
    AttentionItem item;
    int first_token;
    int end_token;
    bool begins_item;
    bool ends_item;
    bool ends_block;  // the last step of the block
    int rows[kVectors];
    int heads[kVectors];
    RowPartials others[kVectors];  // of the vector's row group, where the item merges it (kMergesOthers)
    int visible_first[kVectors];   // vector m attends to the tokens [visible_first[m], visible_end[m])
    int visible_end[kVectors];
    int unmasked_first;  // all vectors attend to the tokens [unmasked_first, unmasked_end)
    int unmasked_end;
};

template <typename V>
struct Shared {
    alignas(1024) std::byte tiles[V::kTiles][V::kTileBytes];
    alignas(16) float results[V::kWarps][V::kResultRows][V::kResultStride];
    Step<V> steps[kSteps];
    OnlineSoftmax softmaxes[kVectors][V::kWarps];
    uint64_t full[V::kTiles];
    uint64_t empty[V::kTiles];
    uint64_t step_full[kSteps];
    uint64_t step_empty[kSteps];
    uint64_t results_full;
    uint64_t results_empty;
    uint64_t before_fresh[2];  // of keys and of values: a tile is there but for its fresh token
};

template <typename V>
struct Parameters {
    AttentionArguments<typename V::T> a;
    HeadShape shape;
    ProjectedRows<typename V::T> projected;
    typename V::T* append_to;  // NarrowLaunch::append_to
    int heads_per_kv;
    int page_shift;
    // An early launch: until the launches before it have ended, only the plan may be read, and what NarrowItem::settled
    // says of the pages.
    bool waits;
    bool appends;  // append_to is not null
};

__device__ inline int warp_index() {
    return static_cast<int>(threadIdx.x / kWarp);
}
__device__ inline int lane_index() {
    return static_cast<int>(threadIdx.x % kWarp);
}

// Each is called by one thread, of different warps.
template <typename V>
__device__ __forceinline__ void init_full_barriers(Shared<V>& shared) {
#pragma unroll
    for (int i = 0; i < V::kTiles; ++i) barrier_init(&shared.full[i], 2);  // K and V
    fence_barrier_init();
}
template <typename V>
__device__ __forceinline__ void init_empty_barriers(Shared<V>& shared) {
#pragma unroll
    for (int i = 0; i < V::kTiles; ++i) barrier_init(&shared.empty[i], 2);
    barrier_init(&shared.before_fresh[0], 1);
    barrier_init(&shared.before_fresh[1], 1);
    fence_barrier_init();
}
template <typename V>
__device__ __forceinline__ void init_step_barriers(Shared<V>& shared) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        barrier_init(&shared.step_full[i], V::kWarps + 1);
        barrier_init(&shared.step_empty[i], V::kConsumers);
    }
    barrier_init(&shared.results_full, V::kConsumers);
    barrier_init(&shared.results_empty, V::kMergers);
    fence_barrier_init();
}

// An item in a warp's registers, one word in each lane: one read of memory, and the next item's read is in flight at
// the same time.
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
    __device__ int settled() const { return get(offsetof(NarrowItem, settled) / 4); }
    __device__ Span span() const {
        constexpr int kAt = offsetof(NarrowItem, span) / 4;
        return {get(kAt), get(kAt + 1), get(kAt + 2), get(kAt + 3)};
    }
    // In lane i, the page of the first span's tokens [16 i, 16 i + 16).
    __device__ int page() const { return page(lane_index() % 16); }
    // The page of the span's tokens [16 i, 16 i + 16), counted from its first one. Lanes may ask for different i, 0
    // to 15.
    __device__ int page(int i) const { return get(offsetof(NarrowItem, pages) / 4 + static_cast<unsigned>(i)); }

  private:
    __device__ int get(size_t i) const { return __shfl_sync(kAllLanes, word_, static_cast<int>(i)); }

    int word_;
};
static_assert(sizeof(NarrowItem) == kWarp * sizeof(int) && offsetof(NarrowItem, item) == 0);
static_assert(sizeof(AttentionItem) == 6 * sizeof(int) && offsetof(AttentionItem, partial) == 5 * sizeof(int));

// Calls visit(item words, span, index of the span, ends_item, ends_block) for the spans of a block's items in order,
// and reads the next item ahead. An item without spans is visited once, with an empty span.
template <typename Visit>
__device__ __forceinline__ void for_each_span(const WorkView& work, ItemWords words, const Visit& visit) {
    for (;;) {
        const int next = words.next();
        const ItemWords following(work.narrow + max(next, 0));
        const int num_spans = words.num_spans();
        Span span = num_spans > 0 ? words.span() : Span{0, 0, 0, 0};
        for (int s = 0;;) {
            const bool ends_item = s + 1 >= num_spans;
            visit(words, span, s, ends_item, ends_item && next < 0);
            if (ends_item) break;
            span = work.spans[words.first_span() + ++s];
        }
        if (next < 0) return;
        words = following;
    }
}

}  // namespace nanolith::cuda::narrow
