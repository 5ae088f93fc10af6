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
          bool kSoftCap_ = false, bool kPingPong_ = true, int kLazy_ = 2, bool kQueryRegisters_ = false,
          bool kHalfTiles_ = false, bool kSkipLoads_ = false>
struct Variant {
    using T = T_;
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kTile = kTile_;
    static constexpr int kStages = kStages_;
    static constexpr int kQuerySlots = kQuerySlots_;
    static constexpr bool kWindow = kWindow_;
    static constexpr bool kSoftCap = kSoftCap_;
    static constexpr bool kPingPong = kPingPong_;
    static constexpr bool kQueryRegisters = kQueryRegisters_;
    static constexpr int kConsumerRegisters = kQueryRegisters ? 232 : 216;
    static constexpr int kProducerRegisters = kQueryRegisters ? 40 : 72;
    static constexpr bool kHalfTiles = kHalfTiles_;
    static constexpr bool kSkipLoads = kSkipLoads_;  // experiment
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
    int32_t seen_end;      // what lies behind is seen by no row
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
    int32_t work;                     // that the preparers come to next
    uint64_t key_full[V::kStages];
    uint64_t key_empty[V::kStages];
    uint64_t value_full[V::kStages];
    uint64_t value_empty[V::kStages];
    uint64_t query_full[V::kQuerySlots];
    uint64_t query_empty[V::kQuerySlots];
    uint64_t step_full[kSteps];
    uint64_t step_empty[kSteps];
};

// Byte in a slot of the 16-byte piece `c` of vector `m`, swizzled.
template <typename V>
__device__ int query_piece(int m, int c) {
    return c / 8 * V::kQueryBlockBytes + m * 128 + ((c ^ m) & 7) * 16;
}

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
        for (int work = static_cast<int>(blockIdx.x); work < total; work = next_work()) {
            const int in_wave = work % per_wave;
            const AttentionItem& item = a.items[in_wave / at_once];
            if (item.num_vectors == 0 && at_once == a.shape.num_kv_heads) break;  // so are all that follow
            prepare(item, work / per_wave * at_once + in_wave % at_once);
        }
        Step end{};
        end.tiles = -1;
        push(end);
        // The last block to end leaves the counters as they were.
        if (thread_ == 0 && atomicAdd(a.counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
            a.counters[0] = 0;
            a.counters[1] = 0;
        }
    }

private:
    // The first block to come for it gets the next work: no sooner than there is a place for its queries, so that no
    // block hoards work that others could do.
    __device__ int next_work() {
        if (thread_ == 0) {
            barrier_wait(&shared_.query_empty[query_slot_.stage], query_slot_.parity ^ 1U, "a query slot (next work)");
            shared_.work = static_cast<int>(gridDim.x) + atomicAdd(p_.a.counters, 1);
        }
        named_barrier_sync(kPreparerBarrier, kPreparers);
        const int work = shared_.work;
        named_barrier_sync(kPreparerBarrier, kPreparers);
        return work;
    }

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
        step.seen_end = end;
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

    static __device__ int piece(int m, int c) { return query_piece<V>(m, c); }

    // Fills the next query slot, rotated for spans at `base`.
    __device__ void load_queries(const AttentionItem& item, int kv_head, int base) {
        const WideArguments<T>& a = p_.a;
        const int slot = query_slot_.stage;
        barrier_wait(&shared_.query_empty[slot], query_slot_.parity ^ 1U, "a query slot");
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
        query_slot_.advance();
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
    RingPlace<V::kQuerySlots> query_slot_;
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
        box_shift_ = min(parameters.page_shift, 6);
        box_tokens_ = 1 << box_shift_;
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
                const int boxes_here = (min(V::kTile, end - token) + box_tokens_ - 1) >> box_shift_;
                boxes.bytes = (boxes_here << box_shift_) * 128 * V::kBlocks;
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
        if constexpr (V::kSkipLoads) {
            if (++loads_ > 2 * V::kStages) {
                if (lane_ == 0) barrier_arrive(full);
                return;
            }
        }
        if (lane_ == 0) barrier_arrive_expect(full, static_cast<uint32_t>(boxes.bytes));
        __syncwarp();
        if (boxes.mine) tma_load(map_, to + block_ * V::kBlockBytes + box_ * 128, full, block_ * 64, boxes.row + offset);
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    const CUtensorMap* map_;
    int lane_;
    int box_shift_;
    int box_tokens_;
    int box_;
    int block_;
    int value_offset_;
    int loads_ = 0;
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

    // One stream of tiles, whatever items they belong to: the scores of a tile are computed together with the output
    // of the tile before, also where a new item begins.
    __device__ void run() {
        if (V::kPingPong && group_ == 1) named_barrier_arrive(kTurnBarrier, kGroups * kGroupThreads);
        begin_step();
        if (!begin_item()) return;
        float output[kOutputs];
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
        read_places();
        clear(output);
        softmax(scores, correction);
        round_weights(scores, weights);

        for (;;) {
            const int present = end_token_ - token_;  // tokens of the tile whose values are next
            const bool half = half_;
            const Next next = advance();
            if (next == Next::kEnd) {
                finish_last(output, weights, present, half);
                return;
            }
            barrier_wait(&shared_.key_full[key_.stage], key_.parity, "keys");
            await_turn();
            wgmma_hold(output);
            wgmma_fence();
            start_scores(scores);
            await_values(present, half);
            start_output(output, weights, half);
            pass_turn();
            wgmma_wait<1>();
            wgmma_hold(scores);
            release(&shared_.key_empty[key_.stage]);
            key_.advance();
            if (next == Next::kItem) {
                wgmma_wait<0>();
                wgmma_hold(output);
                release(&shared_.value_empty[value_.stage]);
                finish(output);
                read_places();
                clear(output);
                wgmma_hold(output);
            }
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
            if (next == Next::kTile) release(&shared_.value_empty[value_.stage]);
            value_.advance();
            round_weights(scores, weights);
            if constexpr (V::kLazy == 0) rescale(output, correction);
        }
    }

private:
    static constexpr int kScores = V::kTile / 2;  // registers of a thread
    static constexpr int kOutputs = V::kHeadDim / 2;
    static constexpr int kSlices = V::kTile / 16;  // of the weights, as A of a product
    static constexpr int kQuerySlices = V::kHeadDim / 16;

    enum class Next { kTile, kItem, kEnd };

    // Reads the step at hand.
    __device__ void begin_step() {
        barrier_wait(&shared_.step_full[step_.stage], step_.parity, "a step");
        const Step& step = shared_.steps[step_.stage];
        token_ = step.token;
        tiles_ = step.tiles;
        end_token_ = step.end_token;
        seen_end_ = step.seen_end;
        all_from_ = step.all_from;
        all_end_ = step.all_end;
        base_ = step.base;
        begin_tile();
    }

    __device__ void begin_tile() { half_ = V::kHalfTiles && tiles_ == 1 && seen_end_ - token_ <= V::kTile / 2; }

    __device__ void end_step() {
        release(&shared_.step_empty[step_.stage]);
        step_.advance();
    }

    __device__ void begin_queries() {
        barrier_wait(&shared_.query_full[query_slot_.stage], query_slot_.parity, "queries");
        const std::byte* const queries = shared_.queries[query_slot_.stage];
        if constexpr (V::kQueryRegisters) {
#pragma unroll
            for (int k = 0; k < kQuerySlices; ++k) {
                const int m = vector_ - lane_ / 4 + lane_ % 16;
                load_matrices(queries + query_piece<V>(m, 2 * k + lane_ / 16), query_[k]);
            }
        } else {
            query_operand_ = wgmma_operand(shared_address(queries) + group_ * kGroupVectors * 128);
        }
    }

    static __device__ void load_matrices(const std::byte* from, uint32_t (&to)[4]) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(shared_address(from))
                     : "memory");
    }

    __device__ void end_queries() {
        release(&shared_.query_empty[query_slot_.stage]);
        query_slot_.advance();
    }

    // From the step at hand to the first item that sees something. False: there is none.
    __device__ bool begin_item() {
        while (tiles_ == 0) {
            begin_queries();
            write_nothing();
            end_queries();
            end_step();
            begin_step();
        }
        if (tiles_ < 0) return false;
        begin_queries();
        return true;
    }

    // To the next tile.
    __device__ Next advance() {
        token_ += V::kTile;
        if (--tiles_ > 0) {
            begin_tile();
            return Next::kTile;
        }
        const bool last = shared_.steps[step_.stage].last;
        end_step();
        begin_step();
        if (last) {
            end_queries();
            return begin_item() ? Next::kItem : Next::kEnd;
        }
        if (shared_.steps[step_.stage].new_queries) {
            end_queries();
            begin_queries();
        }
        return Next::kTile;
    }

    // Where the item's results go, and where its rows stand: kept until the item's last product is done.
    __device__ void read_places() {
        const Step& step = shared_.steps[step_.stage];
        kv_head_ = step.kv_head;
        partial_ = step.partial;
#pragma unroll
        for (int h = 0; h < 2; ++h) place_[h] = shared_.vectors[query_slot_.stage][vector_ + 8 * h];
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

    __device__ void clear(float (&output)[kOutputs]) {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) output[i] = 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            maximum_[h] = -INFINITY;
            sum_[h] = 0;
        }
    }

    __device__ void await_values(int present, bool half) {
        barrier_wait(&shared_.value_full[value_.stage], value_.parity, "values");
        if (present < (half ? V::kTile / 2 : V::kTile)) clear_values(present);
        wgmma_fence();
    }

    __device__ __forceinline__ void finish_last(float (&output)[kOutputs], const uint32_t (&weights)[kSlices][4],
                                                int present, bool half) {
        wgmma_hold(output);
        await_values(present, half);
        start_output(output, weights, half);
        wgmma_wait<0>();
        wgmma_hold(output);
        finish(output);
    }

    __device__ __forceinline__ void start_scores(float (&scores)[kScores]) {
        if constexpr (V::kHalfTiles) {
            if (half_) {
                start_scores_of<V::kTile / 2>(reinterpret_cast<float(&)[kScores / 2]>(scores));
            } else {
                start_scores_of<V::kTile>(scores);
            }
        } else {
            start_scores_of<V::kTile>(scores);
        }
        wgmma_commit();
    }

    template <int kTokens>
    __device__ __forceinline__ void start_scores_of(float (&scores)[kTokens / 2]) {
        using Product = Wgmma<T, kTokens>;
        const uint64_t keys = wgmma_operand(shared_address(shared_.keys[key_.stage]));
#pragma unroll
        for (int k = 0; k < kQuerySlices; ++k) {
            const uint64_t b = keys + static_cast<uint64_t>((k / 4 * V::kBlockBytes + k % 4 * 32) >> 4);
            if constexpr (V::kQueryRegisters) {
                if (k == 0) {
                    Product::multiply(scores, query_[k], b);
                } else {
                    Product::template multiply_add<false>(scores, query_[k], b);
                }
            } else {
                const uint64_t q =
                    query_operand_ + static_cast<uint64_t>((k / 4 * V::kQueryBlockBytes + k % 4 * 32) >> 4);
                if (k == 0) {
                    Product::multiply(scores, q, b);
                } else {
                    Product::multiply_add(scores, q, b);
                }
            }
        }
    }

    __device__ __forceinline__ void start_output(float (&output)[kOutputs], const uint32_t (&weights)[kSlices][4],
                                                 bool half) {
        start_slices<0, V::kHalfTiles ? kSlices / 2 : kSlices>(output, weights);
        if constexpr (V::kHalfTiles) {
            if (!half) start_slices<kSlices / 2, kSlices>(output, weights);
        }
        wgmma_commit();
    }

    template <int kFrom, int kTo>
    __device__ __forceinline__ void start_slices(float (&output)[kOutputs], const uint32_t (&weights)[kSlices][4]) {
        const uint64_t values = wgmma_operand(shared_address(shared_.values[value_.stage]), V::kBlockBytes);
#pragma unroll
        for (int k = kFrom; k < kTo; ++k) {
            Wgmma<T, V::kHeadDim>::template multiply_add<true>(output, weights[k],
                                                               values + static_cast<uint64_t>(k * 16 * 128 >> 4));
        }
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
            const int position = place_[h].position - base_;
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

    // Writes the item's output, or its partial result.
    __device__ __forceinline__ void finish(float (&output)[kOutputs]) {
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
            if (partial_ >= 0) {
                write_partial(output, h, lse);
            } else {
                write_output(output, h, lse);
            }
        }
    }

    // The result of an item that sees nothing.
    __device__ void write_nothing() {
        read_places();
        float zeros[kOutputs] = {};
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (partial_ >= 0) {
                write_partial(zeros, h, -INFINITY);
            } else {
                write_output(zeros, h, -INFINITY);
            }
        }
    }

    __device__ __forceinline__ void write_partial(const float (&output)[kOutputs], int h, float lse) const {
        if (place_[h].row < 0) return;
        const int64_t at = kv_head_ * p_.a.num_partial_vectors + partial_ + vector_ + 8 * h;
        float* const to = p_.a.partial_outputs + at * V::kHeadDim + lane_ % 4 * 2;
#pragma unroll
        for (int j = 0; j < kOutputs / 4; ++j) {
            *reinterpret_cast<float2*>(to + 8 * j) = make_float2(output[4 * j + 2 * h], output[4 * j + 2 * h + 1]);
        }
        if (lane_ % 4 == 0) p_.a.partial_lse[at] = lse;
    }

    // A row's 4 lanes hold pairs of values each; they exchange them so that each writes 16 bytes at a time.
    __device__ __forceinline__ void write_output(const float (&output)[kOutputs], int h, float lse) const {
        static_assert(kOutputs % 16 == 0);
        const Vector place = place_[h];
        T* const to = p_.a.output + place.row * p_.a.output_row_stride + place.head * p_.a.output_head_stride;
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
            if (place.row >= 0) {
                *reinterpret_cast<uint4*>(to + (4 * j + quarter) * 8) = make_uint4(mine[0], mine[1], mine[2], mine[3]);
            }
        }
        if (p_.a.lse != nullptr && place.row >= 0 && quarter == 0) {
            constexpr float kLn2 = 0.693147180559945309F;
            p_.a.lse[static_cast<int64_t>(place.row) * p_.a.shape.num_heads + place.head] = lse * kLn2;
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
    // The tile at hand.
    int token_ = 0;
    int tiles_ = 0;  // of the step, with this one
    int end_token_ = 0;
    int seen_end_ = 0;
    int all_from_ = 0;
    int all_end_ = 0;
    int base_ = 0;
    bool half_ = false;  // only the first half of its tokens is seen by any row
    // The item whose output is computed.
    int kv_head_ = 0;
    int partial_ = 0;
    Vector place_[2] = {};
    float maximum_[2] = {};
    float sum_[2] = {};
    uint64_t query_operand_ = 0;
    uint32_t query_[V::kQueryRegisters ? kQuerySlices : 1][4] = {};
    RingPlace<kSteps> step_;
    RingPlace<V::kQuerySlots> query_slot_;
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
        give_registers<V::kProducerRegisters>();
        if (warp == 0) {
            Loader<V>(shared, parameters, &map).run();
        } else {
            Preparer<V>(shared, parameters).run();
        }
    } else {
        take_registers<V::kConsumerRegisters>();
        Consumer<V>(shared, parameters).run();
    }
#endif
}

}  // namespace nanolith::cuda::wide
