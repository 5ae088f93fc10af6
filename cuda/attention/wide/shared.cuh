// What the warps of the wide attention kernel share: its compile-time variants, parameters and shared memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "attention/attention.h"
#include "attention/common/scores.cuh"
#include "attention/wide/wide.h"
#include "device/mbarrier.cuh"

namespace nanolith::cuda::wide {

constexpr int kGroupThreads = 128;                     // threads of a warpgroup
constexpr int kGroupVectors = 64;                      // query vectors of a computing warpgroup
constexpr int kGroups = kWideVectors / kGroupVectors;  // computing warpgroups
constexpr int kThreads = (1 + kGroups) * kGroupThreads;
constexpr int kPreparers = 96;  // warps 1 to 3 of the first warpgroup; warp 0 loads K and V
constexpr int kConsumers = kGroups * kGroupThreads;
constexpr int kSteps = 4;

// Numbers of named barriers; each computing warpgroup has one of its own from kGroupBarrier and kSchedulerBarrier on.
enum : int { kPreparerBarrier = 1, kGroupBarrier = 2, kSchedulerBarrier = 4, kConsumerBarrier = 6 };

// What the kernel reads beside its tensor map.
template <typename T>
struct Parameters {
    AttentionArguments<T> a;
    HeadShape shape;
    int num_items = 0;
    int32_t* counters = nullptr;
    int heads_per_kv = 0;
    int page_shift = 0;
    FoldedRule rule;
};

// A compile-time variant. kCluster blocks share an item of kCluster * kWideVectors query vectors and what they read of
// K and V.
template <typename T_, int kHeadDim_, bool kWindow_ = false, bool kSoftCap_ = false, int kCluster_ = 1>
struct Variant {
    using T = T_;
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr bool kWindow = kWindow_;
    static constexpr bool kSoftCap = kSoftCap_;
    static constexpr int kCluster = kCluster_;

    static constexpr int kTile = kHeadDim <= 128 ? 128 : 64;  // tokens of a KV tile
    static constexpr int kPart = 32;   // tokens of a tile that are skipped together where no row attends to them
    static constexpr int kStages = 2;  // tiles of K, and of V, in shared memory
    static constexpr int kQuerySlots = kHeadDim <= 128 ? 2 : 1;
    // An item's output is written after the next item's first softmax, where there are registers for both.
    static constexpr bool kEndsLate = kHeadDim <= 128;
    static constexpr int kConsumerRegisters = 216;
    static constexpr int kProducerRegisters = 72;

    static constexpr int kBlocks = (kHeadDim + 63) / 64;  // blocks of 64 values of a head
    static constexpr int kTileBytes = kTile * kBlocks * 128;
    // Where one copy loads whole heads, an octet of tokens has its blocks together; otherwise a block has all its
    // tokens together.
    static constexpr bool kWholeHeads = kHeadDim % 64 == 0;
    static constexpr int kBlockBytes = kWholeHeads ? 1024 : kTile * 128;     // from one block to the next
    static constexpr int kOctetBytes = kWholeHeads ? kBlocks * 1024 : 1024;  // from 8 tokens to the next 8
    static constexpr int kCopies = kWholeHeads ? 1 : kBlocks;                // copies for the same tokens
    static constexpr int kQueryBlockBytes = kWideVectors * 128;
    static constexpr int kQueryBytes = kBlocks * kQueryBlockBytes;
};

// Which query vectors an item has: the fields of AttentionItem of the same names, and the KV head that it is computed
// for.
struct ItemVectors {
    int32_t first_query;
    int32_t first_vector;
    int32_t num_vectors;
    int32_t kv_head;
};

// The part of an item that lies in one span, as the preparing warps publish it to the other warps.
struct Step {
    int32_t first_page;
    int32_t token;           // the first tile's first token
    int32_t tiles;           // 0: no more items
    int32_t end_token;       // tokens from here on do not exist, or are in parts of kPart tokens that no row attends to
    int32_t unmasked_first;  // tiles within [unmasked_first, unmasked_end) are visible to all rows as a whole
    int32_t unmasked_end;
    int32_t base;
    ItemVectors vectors;
    int32_t partial;   // index of vector 0 among the partial results of all KV heads; -1: the item writes the output
    bool new_queries;  // the queries, rotated for this span, are in the next query slot
    bool last;         // step of the item
};

// A query vector of a slot; row -1: none.
struct alignas(16) Vector {
    int32_t row;
    int32_t head;
    int32_t position;  // counted like the spans' bases
};

template <typename V>
struct Shared {
    alignas(1024) std::byte queries[V::kQuerySlots][V::kQueryBytes];
    std::byte keys[V::kStages][V::kTileBytes];
    std::byte values[V::kStages][V::kTileBytes];
    Vector vectors[V::kQuerySlots][kWideVectors];
    Step steps[kSteps];
    int32_t work;  // claimed by the preparers' first thread for all of them
    uint64_t key_full[V::kStages];
    uint64_t key_empty[V::kStages];
    uint64_t value_full[V::kStages];
    uint64_t value_empty[V::kStages];
    uint64_t query_full[V::kQuerySlots];
    uint64_t query_empty[V::kQuerySlots];
    uint64_t step_full[kSteps];
    uint64_t step_empty[kSteps];
};

// The block's number in its cluster.
template <typename V>
__device__ int cluster_rank() {
    return V::kCluster == 1 ? 0 : static_cast<int>(blockIdx.x) % V::kCluster;
}

// Swizzle offset of the 16-byte column `c` of vector `m` in a query slot, in bytes.
template <typename V>
__device__ int query_swizzle_offset(int m, int c) {
    return c / 8 * V::kQueryBlockBytes + m * 128 + ((c ^ m) & 7) * 16;
}

template <typename V>
__device__ void init_barriers(Shared<V>& shared) {
    for (int i = 0; i < V::kStages; ++i) {
        barrier_init(&shared.key_full[i], 1);
        barrier_init(&shared.value_full[i], 1);
        barrier_init(&shared.key_empty[i], V::kCluster * kConsumers / 32);
        barrier_init(&shared.value_empty[i], V::kCluster * kConsumers / 32);
    }
    for (int i = 0; i < V::kQuerySlots; ++i) {
        barrier_init(&shared.query_full[i], kPreparers);
        barrier_init(&shared.query_empty[i], kConsumers);
    }
    for (int i = 0; i < kSteps; ++i) {
        barrier_init(&shared.step_full[i], 1);
        barrier_init(&shared.step_empty[i], kConsumers + 32);  // and the loading warp
    }
    fence_barrier_init();
}

}  // namespace nanolith::cuda::wide
