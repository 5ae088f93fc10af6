// The kernel of wide.h: FlashAttention-3's pipeline (Shah et al., 2024) over a work list of paged segments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "attention/wide.h"
#include "device/mbarrier.cuh"
#include "device/number.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"

namespace nanolith::cuda::wide {

constexpr int kGroupThreads = 128;  // of a warpgroup
constexpr int kGroupVectors = 64;
constexpr int kGroups = kWideVectors / kGroupVectors;  // that compute
constexpr int kThreads = (1 + kGroups) * kGroupThreads;
constexpr int kPreparers = 96;  // warps 1 to 3 of the first warpgroup; warp 0 loads K and V
constexpr int kConsumerWarps = kGroups * 4;
constexpr int kSteps = 4;

// Named barriers.
enum : int { kPreparerBarrier = 1, kGroupBarrier = 2, kTurnBarrier = 4 };

// What the kernel reads beside its tensor map.
template <typename T>
struct Parameters {
    WideArguments<T> a;
    int group = 0;
    int page_shift = 0;
    float score_scale = 0;  // base-2 scores are products times this; with soft_cap, what tanh takes
    float cap_scale = 0;    // base-2 scores are the tanh times this
};

// A compile-time variant. kTile tokens of K and V at a time in kStages stages of shared memory.
template <typename T_, int kHeadDim_, int kTile_, int kStages_, int kQuerySlots_, bool kWindow_ = false,
          bool kSoftCap_ = false, bool kPingPong_ = true, int kLazy_ = 2>
struct Variant {
    using T = T_;
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kTile = kTile_;
    static constexpr int kStages = kStages_;
    static constexpr int kQuerySlots = kQuerySlots_;
    static constexpr bool kWindow = kWindow_;
    static constexpr bool kSoftCap = kSoftCap_;
    static constexpr bool kPingPong = kPingPong_;
    static constexpr int kLazy = kLazy_;  // 0: always corrects, 1: when a maximum changed, 2: by more than 2^8

    static constexpr int kBlocks = (kHeadDim + 63) / 64;  // blocks of 64 values of a head
    static constexpr int kBlockBytes = kTile * 128;       // of a tile
    static constexpr int kTileBytes = kBlocks * kBlockBytes;
    static constexpr int kQueryBlockBytes = kWideVectors * 128;
    static constexpr int kQueryBytes = kBlocks * kQueryBlockBytes;
};

// The part of an item that lies in one span, as the preparers hand it to the others.
struct Step {
    int32_t first_page;
    int32_t token;         // where the first tile begins
    int32_t tiles;         // 0: the item sees nothing; -1: no more items
    int32_t end_token;     // of the span: what lies behind is not there
    int32_t all_from;      // tiles within [all_from, all_end) are seen whole by all rows
    int32_t all_end;
    int32_t base;
    int32_t kv_head;
    int32_t num_vectors;
    int32_t partial;
    bool new_queries;      // these wait in the next query slot
    bool last;             // of the item
};

// A query vector of a slot; row -1: none.
struct alignas(16) Vector {
    int32_t row;
    int32_t head;
    int32_t position;  // less QueryRow::base
};

template <typename V>
struct Shared {
    alignas(1024) std::byte queries[V::kQuerySlots][V::kQueryBytes];
    std::byte keys[V::kStages][V::kTileBytes];
    std::byte values[V::kStages][V::kTileBytes];
    Vector vectors[V::kQuerySlots][kWideVectors];
    Step steps[kSteps];
    int32_t rows[kWideVectors];       // of the item that is prepared
    int32_t positions[kWideVectors];  // of those rows, less QueryRow::base
    int32_t bounds[2][3];             // lowest and highest position seen by each preparing warp
    uint64_t key_full[V::kStages];
    uint64_t key_empty[V::kStages];
    uint64_t value_full[V::kStages];
    uint64_t value_empty[V::kStages];
    uint64_t query_full[V::kQuerySlots];
    uint64_t query_empty[V::kQuerySlots];
    uint64_t step_full[kSteps];
    uint64_t step_empty[kSteps];
};

template <typename V>
__device__ void init_barriers(Shared<V>& shared) {
    for (int i = 0; i < V::kStages; ++i) {
        barrier_init(&shared.key_full[i], 1);
        barrier_init(&shared.value_full[i], 1);
        barrier_init(&shared.key_empty[i], kConsumerWarps);
        barrier_init(&shared.value_empty[i], kConsumerWarps);
    }
    for (int i = 0; i < V::kQuerySlots; ++i) {
        barrier_init(&shared.query_full[i], kPreparers);
        barrier_init(&shared.query_empty[i], kConsumerWarps);
    }
    for (int i = 0; i < kSteps; ++i) {
        barrier_init(&shared.step_full[i], 1);
        barrier_init(&shared.step_empty[i], kConsumerWarps + 1);
    }
    fence_barrier_init();
}

// ---------------------------------------------------------------------------------------------------------------------
// The preparers: walk the work list ahead of the others.

template <typename V>
class Preparer {
public:
    using T = typename V::T;

    __device__ Preparer(Shared<V>& shared, const Parameters<T>& parameters)
        : shared_(shared), p_(parameters), thread_(static_cast<int>(threadIdx.x) - 32) {}

    __device__ void run() {
        const WideArguments<T>& a = p_.a;
        const int at_once = a.kv_heads_at_once;
        const int per_wave = a.num_items * at_once;
        const int total = a.num_items * a.shape.num_kv_heads;
        const int blocks = static_cast<int>(gridDim.x);
        // Back and forth over the blocks, so that one that gets the longest of a round gets the shortest of the next.
        for (int round = 0;; ++round) {
            const int block = static_cast<int>(blockIdx.x);
            const int work = round * blocks + ((round & 1) != 0 ? blocks - 1 - block : block);
            if (round * blocks >= total) break;
            if (work >= total) continue;
            const int in_wave = work % per_wave;
            prepare(a.items[in_wave / at_once], work / per_wave * at_once + in_wave % at_once);
        }
        Step end{};
        end.tiles = -1;
        push(end);
    }

private:
    __device__ void prepare(const AttentionItem& item, int kv_head) {
        if (item.num_vectors == 0) return;
        const WideArguments<T>& a = p_.a;
        load_rows(item);
        Step step{};
        step.kv_head = kv_head;
        step.num_vectors = item.num_vectors;
        step.partial = item.partial;
        step.new_queries = true;
        int base = 0;
        bool any = false;
        for (int s = 0; s < item.num_spans; ++s) {
            const Span span = a.spans[item.first_span + s];
            Step next = step;
            if (!place(span, next)) continue;
            if (any) {
                hand_over(step, false, item, kv_head);
                next.new_queries = a.rope != nullptr && span.base != base;
            } else {
                next.new_queries = true;
            }
            any = true;
            base = span.base;
            step = next;
        }
        hand_over(step, true, item, kv_head);
    }

    // Rows of the item and where they stand, and the lowest and highest position.
    __device__ void load_rows(const AttentionItem& item) {
        const WideArguments<T>& a = p_.a;
        const int rows = (item.first_vector + item.num_vectors + p_.group - 1) / p_.group;
        int row[2] = {-1, -1};
        int position[2];
        int low = INT32_MAX;
        int high = INT32_MIN;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = thread_ + i * kPreparers;
            if (r < rows) {
                const QueryRow query = a.rows[item.first_query + r];
                row[i] = query.row;
                position[i] = a.positions[query.row] - query.base;
                low = min(low, position[i]);
                high = max(high, position[i]);
            }
        }
        low = __reduce_min_sync(~0U, low);
        high = __reduce_max_sync(~0U, high);
        named_barrier_sync(kPreparerBarrier, kPreparers);  // the last item's are read
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (row[i] < 0) continue;
            shared_.rows[thread_ + i * kPreparers] = row[i];
            shared_.positions[thread_ + i * kPreparers] = position[i];
        }
        if (thread_ % 32 == 0) {
            shared_.bounds[0][thread_ / 32] = low;
            shared_.bounds[1][thread_ / 32] = high;
        }
        named_barrier_sync(kPreparerBarrier, kPreparers);
        lowest_ = min(min(shared_.bounds[0][0], shared_.bounds[0][1]), shared_.bounds[0][2]);
        highest_ = max(max(shared_.bounds[1][0], shared_.bounds[1][1]), shared_.bounds[1][2]);
    }

    // Which tiles of `span` the rows see. False: none.
    __device__ bool place(const Span& span, Step& step) const {
        const WideArguments<T>& a = p_.a;
        const int low = lowest_ - span.base;
        const int high = highest_ - span.base;
        int begin = span.first_token;
        int end = span.end_token;
        step.all_from = begin;
        step.all_end = end;
        if (a.causal) {
            end = min(end, high + 1);
            step.all_end = min(end, low + 1);
        }
        if constexpr (V::kWindow) {
            begin = max(begin, (low - a.window + 1) / 64 * 64);
            step.all_from = high - a.window + 1;
        }
        step.first_page = span.first_page;
        step.token = begin;
        step.end_token = span.end_token;
        step.base = span.base;
        step.tiles = (end - begin + V::kTile - 1) / V::kTile;
        return end > begin;
    }

    __device__ void push(const Step& step) {
        if (thread_ == 0) {
            barrier_wait(&shared_.step_empty[step_.stage], step_.parity ^ 1U, "a place for a step");
            shared_.steps[step_.stage] = step;
            barrier_arrive(&shared_.step_full[step_.stage]);
        }
        step_.advance();
    }

    __device__ void hand_over(Step& step, bool last, const AttentionItem& item, int kv_head) {
        step.last = last;
        push(step);
        if (step.new_queries) load_queries(item, kv_head, step.base);
    }

    static constexpr int kHalf = V::kHeadDim / 16;  // 16-byte pieces of half a vector

    // Byte in a slot of piece `c` of vector `m`.
    static __device__ int piece(int m, int c) {
        return c / 8 * V::kQueryBlockBytes + m * 128 + ((c ^ m) & 7) * 16;
    }

    // Fills the next query slot, rotated for spans at `base`.
    __device__ void load_queries(const AttentionItem& item, int kv_head, int base) {
        const WideArguments<T>& a = p_.a;
        const int slot = query_.stage;
        barrier_wait(&shared_.query_empty[slot], query_.parity ^ 1U, "a query slot");
        for (int m = thread_; m < kWideVectors; m += kPreparers) {
            Vector vector{-1, 0, 0};
            if (m < item.num_vectors) {
                const int place = item.first_vector + m;
                const int r = place / p_.group;
                vector = {shared_.rows[r], kv_head * p_.group + place - r * p_.group, shared_.positions[r]};
            }
            shared_.vectors[slot][m] = vector;
        }
        named_barrier_sync(kPreparerBarrier, kPreparers);
        std::byte* const to = shared_.queries[slot];
        for (int i = thread_; i < kWideVectors * kHalf; i += kPreparers) {
            const int m = i / kHalf;
            const int c = i % kHalf;
            const Vector vector = shared_.vectors[slot][m];
            if (vector.row >= 0) {
                const T* const from = a.queries + vector.row * a.query_row_stride + vector.head * a.query_head_stride;
                copy_async(to + piece(m, c), from + c * 8);
                copy_async(to + piece(m, c + kHalf), from + (c + kHalf) * 8);
            } else {
                *reinterpret_cast<uint4*>(to + piece(m, c)) = make_uint4(0, 0, 0, 0);
                *reinterpret_cast<uint4*>(to + piece(m, c + kHalf)) = make_uint4(0, 0, 0, 0);
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        if (a.rope != nullptr) {
#pragma unroll 1
            for (int i = thread_; i < kWideVectors * kHalf; i += kPreparers) {
                const int m = i / kHalf;
                const int c = i % kHalf;
                const Vector vector = shared_.vectors[slot][m];
                if (vector.row >= 0) rotate(to + piece(m, c), to + piece(m, c + kHalf), max(0, vector.position - base), c);
            }
        }
        fence_async_proxy();
        barrier_arrive(&shared_.query_full[slot]);
        query_.advance();
    }

    static __device__ void copy_async(void* to, const void* from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    }

    // Turns the pairs of values (8 c + i, 8 c + i + head_dim / 2) to `position`.
    __device__ void rotate(std::byte* low, std::byte* high, int position, int c) const {
        const float4* const turns =
            reinterpret_cast<const float4*>(p_.a.rope + static_cast<int64_t>(position) * (V::kHeadDim / 2) + c * 8);
        float4 turn[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) turn[i] = __ldg(turns + i);
        float x[8];
        float y[8];
        load_pack(reinterpret_cast<const T*>(low), x);
        load_pack(reinterpret_cast<const T*>(high), y);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float cosine = (i & 1) != 0 ? turn[i / 2].z : turn[i / 2].x;
            const float sine = (i & 1) != 0 ? turn[i / 2].w : turn[i / 2].y;
            const float turned = x[i] * cosine - y[i] * sine;
            y[i] = y[i] * cosine + x[i] * sine;
            x[i] = turned;
        }
        store_pack(reinterpret_cast<T*>(low), x);
        store_pack(reinterpret_cast<T*>(high), y);
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    int thread_;
    int lowest_ = 0;
    int highest_ = 0;
    RingPlace<kSteps> step_;
    RingPlace<V::kQuerySlots> query_;
};

// ---------------------------------------------------------------------------------------------------------------------
// The loader: one warp. Each lane copies one box of min(page_size, 64) tokens and 64 values of a tile.

template <typename V>
class Loader {
public:
    using T = typename V::T;

    __device__ Loader(Shared<V>& shared, const Parameters<T>& parameters, const CUtensorMap* map)
        : shared_(shared), p_(parameters), map_(map), lane_(static_cast<int>(threadIdx.x) % 32) {
        const int page_size = parameters.a.shape.page_size;
        box_tokens_ = min(page_size, 64);
        box_ = lane_ / V::kBlocks * box_tokens_;  // its first token in the tile
        block_ = lane_ % V::kBlocks;
        value_offset_ = parameters.a.shape.num_kv_heads * page_size;
    }

    __device__ void run() {
        RingPlace<kSteps> place;
        for (;;) {
            barrier_wait(&shared_.step_full[place.stage], place.parity, "a step (loader)");
            const Step& shared_step = shared_.steps[place.stage];
            const int first_page = shared_step.first_page;
            const int kv_head = shared_step.kv_head;
            const int tiles = shared_step.tiles;
            const int end = shared_step.end_token;
            const bool last = shared_step.last;
            int token = shared_step.token;
            __syncwarp();
            if (lane_ == 0) barrier_arrive(&shared_.step_empty[place.stage]);
            place.advance();
            if (tiles < 0) break;
            const int32_t* const pages = p_.a.page_table + first_page;
            int page = page_of(pages, token, end);
            for (int tile = 0; tile < tiles; ++tile, token += V::kTile) {
                const int next_page = page_of(pages, token + V::kTile, end);
                Boxes boxes;
                boxes.row = ((page * 2) * p_.a.shape.num_kv_heads + kv_head) * p_.a.shape.page_size +
                            ((token + box_) & (p_.a.shape.page_size - 1));
                boxes.mine = box_ < V::kTile && token + box_ < end;
                const int boxes_here = (min(V::kTile, end - token) + box_tokens_ - 1) / box_tokens_;
                boxes.bytes = boxes_here * box_tokens_ * 128 * V::kBlocks;
                load(shared_.keys[key_.stage], &shared_.key_full[key_.stage], &shared_.key_empty[key_.stage],
                     key_.parity, boxes, 0);
                key_.advance();
                if (waiting_) load_values();
                values_ = boxes;
                waiting_ = true;
                page = next_page;
            }
            if (last && waiting_) load_values();
        }
    }

private:
    // What a lane copies of a tile, and what all do.
    struct Boxes {
        int row;
        int bytes;
        bool mine;
    };

    __device__ int page_of(const int32_t* pages, int token, int end) const {
        const int mine = token + box_;
        return mine < end && box_ < V::kTile ? pages[mine >> p_.page_shift] : 0;
    }

    __device__ void load_values() {
        load(shared_.values[value_.stage], &shared_.value_full[value_.stage], &shared_.value_empty[value_.stage],
             value_.parity, values_, value_offset_);
        value_.advance();
        waiting_ = false;
    }

    __device__ void load(std::byte* to, uint64_t* full, uint64_t* empty, uint32_t parity, const Boxes& boxes, int offset) {
        barrier_wait(empty, parity ^ 1U, offset == 0 ? "a place for keys" : "a place for values");
        if (lane_ == 0) barrier_arrive_expect(full, static_cast<uint32_t>(boxes.bytes));
        __syncwarp();
        if (boxes.mine) tma_load(map_, to + block_ * V::kBlockBytes + box_ * 128, full, block_ * 64, boxes.row + offset);
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    const CUtensorMap* map_;
    int lane_;
    int box_tokens_;
    int box_;
    int block_;
    int value_offset_;
    bool waiting_ = false;  // the values of the tile before are not copied yet
    Boxes values_{};
    RingPlace<V::kStages> key_;
    RingPlace<V::kStages> value_;
};

// ---------------------------------------------------------------------------------------------------------------------
// The consumers: two warpgroups, each 64 query vectors.

__device__ inline float exp2_approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float tanh_approximate(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline uint32_t pack_two(float low, float high, __half) {
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
__device__ inline uint32_t pack_two(float low, float high, __nv_bfloat16) {
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

template <typename V>
class Consumer {
public:
    using T = typename V::T;

    __device__ Consumer(Shared<V>& shared, const Parameters<T>& parameters)
        : shared_(shared), p_(parameters), group_(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / kGroupThreads - 1, 0)),
          lane_(static_cast<int>(threadIdx.x) % 32) {
        // Each thread holds parts of two rows of the 64, these and the ones 8 below.
        vector_ = group_ * kGroupVectors + static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane_ / 4;
    }

    __device__ void run() {
        if (V::kPingPong && group_ == 1) named_barrier_arrive(kTurnBarrier, kGroups * kGroupThreads);
        float output[kOutputs];
        while (begin_step()) {
            begin_queries();
#pragma unroll
            for (int i = 0; i < kOutputs; ++i) output[i] = 0;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                maximum_[h] = -INFINITY;
                sum_[h] = 0;
            }
            if (tiles_ > 0) attend(output);
            finish(output);
            release(&shared_.query_empty[query_.stage]);
            query_.advance();
            release(&shared_.step_empty[step_.stage]);
            step_.advance();
        }
    }

private:
    static constexpr int kScores = V::kTile / 2;  // registers of a thread
    static constexpr int kOutputs = V::kHeadDim / 2;
    static constexpr int kSlices = V::kTile / 16;  // of the weights, as A of a product
    using Product1 = Wgmma<T, V::kTile>;
    using Product2 = Wgmma<T, V::kHeadDim>;

    // Reads the step at hand. False: no more.
    __device__ bool begin_step() {
        barrier_wait(&shared_.step_full[step_.stage], step_.parity, "a step");
        const Step& step = shared_.steps[step_.stage];
        token_ = step.token;
        tiles_ = step.tiles;
        end_token_ = step.end_token;
        all_from_ = step.all_from;
        all_end_ = step.all_end;
        base_ = step.base;
        return tiles_ >= 0;
    }

    __device__ void begin_queries() {
        barrier_wait(&shared_.query_full[query_.stage], query_.parity, "queries");
#pragma unroll
        for (int h = 0; h < 2; ++h) position_[h] = shared_.vectors[query_.stage][vector_ + 8 * h].position;
        query_operand_ = wgmma_operand(shared_address(shared_.queries[query_.stage]) + group_ * kGroupVectors * 128);
    }

    // To the item's next tile. False: that was the last.
    __device__ bool advance() {
        token_ += V::kTile;
        if (--tiles_ > 0) return true;
        if (shared_.steps[step_.stage].last) return false;
        release(&shared_.step_empty[step_.stage]);
        step_.advance();
        begin_step();
        if (shared_.steps[step_.stage].new_queries) {
            release(&shared_.query_empty[query_.stage]);
            query_.advance();
            begin_queries();
        }
        return true;
    }

    __device__ void release(uint64_t* barrier) const {
        __syncwarp();
        if (lane_ == 0) barrier_arrive(barrier);
    }

    // Each of the two warpgroups issues its products while the other computes its softmax.
    __device__ void await_turn() const {
        if constexpr (V::kPingPong) named_barrier_sync(kTurnBarrier + group_, kGroups * kGroupThreads);
    }
    __device__ void pass_turn() const {
        if constexpr (V::kPingPong) named_barrier_arrive(kTurnBarrier + 1 - group_, kGroups * kGroupThreads);
    }

    __device__ __forceinline__ void attend(float (&output)[kOutputs]) {
        float scores[kScores];
        uint32_t weights[kSlices][4];
        float correction[2];
        barrier_wait(&shared_.key_full[key_.stage], key_.parity, "keys");
        wgmma_fence();
        start_scores(scores);
        wgmma_wait<0>();
        wgmma_hold(scores);
        release(&shared_.key_empty[key_.stage]);
        key_.advance();
        softmax(scores, correction);
        round_weights(scores, weights);
        int present = end_token_ - token_;  // tokens of the tile whose values are next

        while (advance()) {
            barrier_wait(&shared_.key_full[key_.stage], key_.parity, "keys");
            await_turn();
            wgmma_hold(output);
            wgmma_fence();
            start_scores(scores);
            barrier_wait(&shared_.value_full[value_.stage], value_.parity, "values");
            if (present < V::kTile) clear_values(present);
            wgmma_fence();
            start_output(output, weights);
            pass_turn();
            wgmma_wait<1>();
            wgmma_hold(scores);
            release(&shared_.key_empty[key_.stage]);
            key_.advance();
            softmax(scores, correction);
            wgmma_hold(scores);
            if constexpr (V::kLazy > 0) {
                // The branch keeps the compiler from waiting for the products before the softmax.
                if (!__all_sync(~0U, correction[0] == 1.0F && correction[1] == 1.0F)) {
                    wgmma_wait<0>();
                    wgmma_hold(output);
                    rescale(output, correction);
                    wgmma_hold(output);
                }
            }
            wgmma_wait<0>();
            wgmma_hold(output);
            wgmma_hold(scores);
            release(&shared_.value_empty[value_.stage]);
            value_.advance();
            round_weights(scores, weights);
            if constexpr (V::kLazy == 0) rescale(output, correction);
            present = end_token_ - token_;
        }

        barrier_wait(&shared_.value_full[value_.stage], value_.parity, "values");
        if (present < V::kTile) clear_values(present);
        wgmma_hold(output);
        wgmma_fence();
        start_output(output, weights);
        wgmma_wait<0>();
        wgmma_hold(output);
        release(&shared_.value_empty[value_.stage]);
        value_.advance();
    }

    __device__ __forceinline__ void start_scores(float (&scores)[kScores]) {
        const uint64_t keys = wgmma_operand(shared_address(shared_.keys[key_.stage]));
#pragma unroll
        for (int k = 0; k < V::kHeadDim / 16; ++k) {
            const uint64_t q = query_operand_ + static_cast<uint64_t>((k / 4 * V::kQueryBlockBytes + k % 4 * 32) >> 4);
            const uint64_t b = keys + static_cast<uint64_t>((k / 4 * V::kBlockBytes + k % 4 * 32) >> 4);
            if (k == 0) {
                Product1::multiply(scores, q, b);
            } else {
                Product1::multiply_add(scores, q, b);
            }
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void start_output(float (&output)[kOutputs], const uint32_t (&weights)[kSlices][4]) {
        const uint64_t values = wgmma_operand(shared_address(shared_.values[value_.stage]), V::kBlockBytes);
#pragma unroll
        for (int k = 0; k < kSlices; ++k) {
            Product2::multiply_add(output, weights[k], values + static_cast<uint64_t>(k * 16 * 128 >> 4));
        }
        wgmma_commit();
    }

    // Values of tokens behind a span's end may be anything, and their weights are 0: 0 * NaN must not get in.
    __device__ void clear_values(int present) {
        std::byte* const values = shared_.values[value_.stage];
        const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
#pragma unroll 1
        for (int i = thread; i < (V::kTile - present) * 8 * V::kBlocks; i += kGroupThreads) {
            const int block = i % V::kBlocks;
            const int at = i / V::kBlocks;  // 16-byte pieces
            *reinterpret_cast<uint4*>(values + block * V::kBlockBytes + present * 128 + at * 16) = make_uint4(0, 0, 0, 0);
        }
        fence_async_proxy();
        named_barrier_sync(kGroupBarrier + group_, kGroupThreads);
    }

    // Scores of tokens that a row doesn't see become -inf.
    __device__ __forceinline__ void mask(float (&scores)[kScores]) const {
        const int first = token_ + lane_ % 4 * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int position = position_[h] - base_;
            const int end = (p_.a.causal ? min(end_token_, position + 1) : end_token_) - first;
            const int from = V::kWindow ? position - p_.a.window + 1 - first : 0;
#pragma unroll
            for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    bool seen = 8 * j + i < end;
                    if constexpr (V::kWindow) seen = seen && 8 * j + i >= from;
                    float& score = scores[4 * j + 2 * h + i];
                    score = seen ? score : -INFINITY;
                }
            }
        }
    }

    // Turns scores into weights relative to the rows' maxima so far. `correction`: what the weights before must be
    // multiplied with.
    __device__ __forceinline__ void softmax(float (&scores)[kScores], float (&correction)[2]) {
        if constexpr (V::kSoftCap) {
#pragma unroll
            for (int i = 0; i < kScores; ++i) scores[i] = tanh_approximate(scores[i] * p_.score_scale);
        }
        bool part = token_ + V::kTile > all_end_;
        if constexpr (V::kWindow) part = part || token_ < all_from_;
        if (part) mask(scores);
        const float scale = V::kSoftCap ? p_.cap_scale : p_.score_scale;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float high[2] = {scores[2 * h], scores[2 * h + 1]};
#pragma unroll
            for (int j = 1; j < kScores / 4; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) high[i] = fmaxf(high[i], scores[4 * j + 2 * h + i]);
            }
            float highest = fmaxf(high[0], high[1]);
            highest = fmaxf(highest, __shfl_xor_sync(~0U, highest, 1));
            highest = fmaxf(highest, __shfl_xor_sync(~0U, highest, 2));
            const float before = maximum_[h];
            highest = fmaxf(highest, before);
            if constexpr (V::kLazy == 2) {
                // Weights up to 2^8 do no harm: most tiles need no correction then.
                if ((highest - before) * scale <= 8.0F) highest = before;
            }
            maximum_[h] = highest;
            if (highest == -INFINITY) highest = 0;  // nothing seen so far: -inf - -inf must not be
            const float offset = highest * scale;
            correction[h] = exp2_approximate((before - highest) * scale);
            float part_sum[2] = {0, 0};
#pragma unroll
            for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float& score = scores[4 * j + 2 * h + i];
                    score = exp2_approximate(fmaf(score, scale, -offset));
                    part_sum[i] += score;
                }
            }
            sum_[h] = fmaf(sum_[h], correction[h], part_sum[0] + part_sum[1]);
        }
    }

    __device__ __forceinline__ void round_weights(const float (&scores)[kScores], uint32_t (&weights)[kSlices][4]) const {
#pragma unroll
        for (int k = 0; k < kSlices; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) weights[k][i] = pack_two(scores[8 * k + 2 * i], scores[8 * k + 2 * i + 1], T());
        }
    }

    __device__ __forceinline__ void rescale(float (&output)[kOutputs], const float (&correction)[2]) const {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) output[i] *= correction[i / 2 % 2];
    }

    // Writes the output, or the partial result.
    __device__ void finish(float (&output)[kOutputs]) {
        const WideArguments<T>& a = p_.a;
        const Step& step = shared_.steps[step_.stage];
        const float scale = V::kSoftCap ? p_.cap_scale : p_.score_scale;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float sum = sum_[h];
            sum += __shfl_xor_sync(~0U, sum, 1);
            sum += __shfl_xor_sync(~0U, sum, 2);
            const float inverse = sum == 0 ? 0.0F : 1.0F / sum;
            const float lse = sum == 0 ? -INFINITY : fmaf(maximum_[h], scale, log2f(sum));
#pragma unroll
            for (int i = 0; i < kOutputs / 4; ++i) {
                output[4 * i + 2 * h] *= inverse;
                output[4 * i + 2 * h + 1] *= inverse;
            }
            const int m = vector_ + 8 * h;
            const Vector vector = shared_.vectors[query_.stage][m];
            if (step.partial >= 0) {
                const int64_t at = step.kv_head * a.num_partial_vectors + step.partial + m;
                if (vector.row >= 0) write_partial(output, h, lse, at);
            } else {
                write_output(output, h, vector);
                constexpr float kLn2 = 0.693147180559945309F;
                if (a.lse != nullptr && vector.row >= 0 && lane_ % 4 == 0) {
                    a.lse[static_cast<int64_t>(vector.row) * a.shape.num_heads + vector.head] = lse * kLn2;
                }
            }
        }
    }

    __device__ __forceinline__ void write_partial(const float (&output)[kOutputs], int h, float lse, int64_t at) const {
        float* const to = p_.a.partial_outputs + at * V::kHeadDim + lane_ % 4 * 2;
#pragma unroll
        for (int j = 0; j < kOutputs / 4; ++j) {
            *reinterpret_cast<float2*>(to + 8 * j) = make_float2(output[4 * j + 2 * h], output[4 * j + 2 * h + 1]);
        }
        if (lane_ % 4 == 0) p_.a.partial_lse[at] = lse;
    }

    // A row's 4 lanes hold pairs of values each; they exchange them so that each writes 16 bytes at a time.
    __device__ __forceinline__ void write_output(const float (&output)[kOutputs], int h, const Vector& vector) const {
        static_assert(kOutputs % 16 == 0);
        T* const to = p_.a.output + vector.row * p_.a.output_row_stride + vector.head * p_.a.output_head_stride;
        const int quarter = lane_ % 4;
#pragma unroll
        for (int j = 0; j < kOutputs / 16; ++j) {
            uint32_t mine[4];  // pairs of the 4 groups of 8 values
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = 4 * (4 * j + i) + 2 * h;
                mine[i] = pack_two(output[at], output[at + 1], T());
            }
            transpose_quad(mine, quarter);
            if (vector.row >= 0) {
                *reinterpret_cast<uint4*>(to + (4 * j + quarter) * 8) = make_uint4(mine[0], mine[1], mine[2], mine[3]);
            }
        }
    }

    // Lane q's value i goes to lane i as its value q.
    static __device__ __forceinline__ void transpose_quad(uint32_t (&x)[4], int q) {
        const bool odd = (q & 1) != 0;
        const bool upper = (q & 2) != 0;
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const uint32_t got = __shfl_xor_sync(~0U, odd ? x[i] : x[i + 1], 1);
            x[i] = odd ? got : x[i];
            x[i + 1] = odd ? x[i + 1] : got;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t got = __shfl_xor_sync(~0U, upper ? x[i] : x[i + 2], 2);
            x[i] = upper ? got : x[i];
            x[i + 2] = upper ? x[i + 2] : got;
        }
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    int group_;
    int lane_;
    int vector_;
    int token_ = 0;
    int tiles_ = 0;
    int end_token_ = 0;
    int all_from_ = 0;
    int all_end_ = 0;
    int base_ = 0;
    int position_[2] = {};
    float maximum_[2] = {};
    float sum_[2] = {};
    uint64_t query_operand_ = 0;
    RingPlace<kSteps> step_;
    RingPlace<V::kQuerySlots> query_;
    RingPlace<V::kStages> key_;
    RingPlace<V::kStages> value_;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int kRegisters>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif

template <typename V>
__global__ void __launch_bounds__(kThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ Parameters<typename V::T> parameters) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) std::byte wide_shared[];  // the swizzle counts from multiples of 1 KiB
    Shared<V>& shared = *reinterpret_cast<Shared<V>*>(wide_shared);
    if (threadIdx.x == 0) {
        tma_prefetch_map(&map);
        init_barriers(shared);
    }
    __syncthreads();
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp < 4) {
        give_registers<72>();
        if (warp == 0) {
            Loader<V>(shared, parameters, &map).run();
        } else {
            Preparer<V>(shared, parameters).run();
        }
    } else {
        take_registers<216>();
        Consumer<V>(shared, parameters).run();
    }
#endif
}

}  // namespace nanolith::cuda::wide
