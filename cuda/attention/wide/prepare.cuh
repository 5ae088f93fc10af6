// The preparing warps of the wide attention kernel: they go through the work list ahead of the other warps, find out
// which tiles each item reads, and write its queries, rotated, to shared memory.
#pragma once

#include <climits>
#include <cstdint>

#include "attention/wide/shared.cuh"
#include "device/number.cuh"
#include "device/prefetch.cuh"

namespace nanolith::cuda::wide {

template <typename V>
class Preparer {
  public:
    using T = typename V::T;

    __device__ Preparer(Shared<V>& shared, const Parameters<T>& parameters)
        : shared_(shared), p_(parameters), thread_(static_cast<int>(threadIdx.x) - 32) {}

    // Prefetches the block's first item, before the barriers are initialised.
    static __device__ void prefetch_first(const Parameters<T>& p) {
        const int work = static_cast<int>(blockIdx.x) / V::kCluster;
        if (work < p.num_items * p.shape.num_kv_heads) prefetch(p.a.work.wide + work / p.shape.num_kv_heads);
    }

    // KV heads are computed in groups, one group after the other, and a group's (item, KV head) pairs, here "work", in
    // rounds over the blocks. Rounds 0 and 1 are static, forward then reversed over the blocks (snake order). From
    // round 2 on a block claims its next work from an atomic counter, when it starts the work before the previous one,
    // so that no block holds work that others could do. Clusters keep the snake order to the end; every other group
    // begins with the reversed order, because the previous group's last round is incomplete.
    __device__ void run() {
        const int blocks = static_cast<int>(gridDim.x) / V::kCluster;
        const int block = static_cast<int>(blockIdx.x) / V::kCluster;
        const int heads = p_.shape.num_kv_heads;
        const int at_once = p_.a.work.wide[block / heads].kv_heads_at_once;
        // Code that runs for the first time is slow, and most launches have one group: these skip the divisions.
        const bool grouped = at_once > 0;
        const int groups = grouped ? (heads + at_once - 1) / at_once : 1;
        const int rounds =
            grouped ? (p_.num_items * at_once + blocks - 1) / blocks : INT_MAX;  // of a group of KV heads
        int group = 0;
        for (int round = 0;; ++round) {
            const bool claims = V::kCluster == 1 && round >= 2;
            const bool reversed = (grouped ? round / rounds + round % rounds : round) % 2 != 0;
            const int work = claims ? 2 * blocks + claim() : round * blocks + (reversed ? blocks - 1 - block : block);
            int index_in_group = work;
            int group_heads = heads;
            if (grouped) {
                group = work / (rounds * blocks);
                if (group >= groups) break;
                index_in_group -= group * rounds * blocks;
                group_heads = min(at_once, heads - group * at_once);
            }
            if (prepare(index_in_group / group_heads, group * at_once + index_in_group % group_heads)) continue;
            if (group + 1 == groups) break;
            // This group has no more work: continue with the next one.
            if (claims && thread_ == 0) atomicMax(p_.counters, ((group + 1) * rounds - 2) * blocks);
            round = max(round, (group + 1) * rounds - 1);
        }
        push(Step{});
        // The last block to end resets the counters.
        if (V::kCluster == 1 && thread_ == 0 && atomicAdd(p_.counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
            p_.counters[0] = 0;
            p_.counters[1] = 0;
        }
    }

  private:
    // The next work of the counter, the same for all preparing threads.
    __device__ int claim() {
        if (thread_ == 0) shared_.work = atomicAdd(p_.counters, 1);
        named_barrier_sync(kPreparerBarrier, kPreparers);
        const int work = shared_.work;
        named_barrier_sync(kPreparerBarrier, kPreparers);
        return work;
    }

    // Publishes the steps of an item for one KV head, and its queries. False: the work list has no such item.
    __device__ bool prepare(int index, int kv_head) {
        if (index >= p_.num_items) return false;
        const AttentionArguments<T>& a = p_.a;
        const WideItem wide = a.work.wide[index];
        const AttentionItem& item = wide.item;
        if (item.num_vectors == 0) return false;  // nor have the items after it
        lowest_ = wide.lowest;
        highest_ = wide.highest;
        Step step{};
        step.kv_head = kv_head;
        step.num_vectors = item.num_vectors;
        if (item.partial < 0) {
            step.partial = -1;
        } else {
            step.partial =
                static_cast<int>(kv_head * a.partial.capacity) + item.partial + cluster_rank<V>() * kWideVectors;
        }
        step.new_queries = true;
        int base = 0;
        bool any = false;  // `step` has a span of the item
        for (int s = 0;; ++s) {
            const bool end = s == item.num_spans;
            Step next = step;
            if (!end) {
                const Span span = s == 0 ? wide.span : a.work.spans[item.first_span + s];
                if (!find_tiles(span, next)) continue;
                next.new_queries = !any || (a.rope != nullptr && span.base != base);
                base = span.base;
            }
            if (any) publish_step(step, end, item, kv_head);
            if (end) break;
            any = true;
            step = next;
        }
        if (!any) write_nothing(item, kv_head, step.partial);
        return true;
    }

    // Writes the results of an item whose rows attend to no token.
    __device__ void write_nothing(const AttentionItem& item, int kv_head, int partial) const {
        const AttentionArguments<T>& a = p_.a;
        for (int m = thread_; m < kWideVectors; m += kPreparers) {
            const Vector vector = vector_of(item, kv_head, m);
            if (vector.row < 0) return;
            if (partial >= 0) {
                const int64_t at = int64_t{partial} + m;
                for (int i = 0; i < V::kHeadDim; ++i) a.partial.outputs[at * V::kHeadDim + i] = 0;
                a.partial.sums[at * (V::kHeadDim / 4)] = -INFINITY;
                continue;
            }
            T* const output = a.output + a.output_layout.offset(vector.row, vector.head);
            for (int i = 0; i < V::kHeadDim; ++i) output[i] = from_float<T>(0);
            if (a.lse != nullptr)
                a.lse[static_cast<int64_t>(vector.row) * p_.shape.num_heads + vector.head] = -INFINITY;
        }
    }

    // Vector m of the block's part of an item.
    __device__ Vector vector_of(const AttentionItem& item, int kv_head, int m) const {
        const int in_item = cluster_rank<V>() * kWideVectors + m;
        if (in_item >= item.num_vectors) return {-1, 0, 0};
        const int vector = item.first_vector + in_item;
        const int r = vector / p_.heads_per_kv;
        const QueryRow query = p_.a.work.queries[item.first_query + r];
        return {query.row, kv_head * p_.heads_per_kv + vector - r * p_.heads_per_kv, query.position};
    }

    // Sets the tiles of `span` that any row attends to. False: there are none.
    __device__ bool find_tiles(const Span& span, Step& step) const {
        const AttentionArguments<T>& a = p_.a;
        const int low = lowest_ - span.base;
        const int high = highest_ - span.base;
        int begin = span.first_token;
        int end = span.end_token;
        step.unmasked_first = begin;
        step.unmasked_end = end;
        if (a.rule.causal) {
            end = causal_end(high, end);
            step.unmasked_end = causal_end(low, end);
        }
        if constexpr (V::kWindow) {
            begin = max(begin, window_first(a.rule, low) / 64 * 64);
            step.unmasked_first = window_first(a.rule, high);
        }
        step.first_page = span.first_page;
        step.token = begin;
        step.end_token = min(span.end_token, begin + (end - begin + V::kPart - 1) / V::kPart * V::kPart);
        step.base = span.base;
        step.tiles = (end - begin + V::kTile - 1) / V::kTile;
        return end > begin;
    }

    __device__ void push(const Step& step) {
        if (thread_ == 0) {
            barrier_wait(&shared_.step_empty[step_.stage], step_.parity ^ 1U, "an empty stage for a step");
            shared_.steps[step_.stage] = step;
            barrier_arrive(&shared_.step_full[step_.stage]);
        }
        step_.advance();
    }

    // Publishes a step, and its queries where they are new.
    __device__ void publish_step(Step& step, bool last, const AttentionItem& item, int kv_head) {
        step.last = last;
        push(step);
        if (step.new_queries) load_queries(item, kv_head, step.base);
    }

    static constexpr int kHalf = V::kHeadDim / 16;  // 16-byte columns of half a vector

    static __device__ int offset(int m, int c) { return query_swizzle_offset<V>(m, c); }

    // Fills the next query slot, rotated for spans at `base`.
    __device__ void load_queries(const AttentionItem& item, int kv_head, int base) {
        const AttentionArguments<T>& a = p_.a;
        const int slot = query_slot_.stage;
        barrier_wait(&shared_.query_empty[slot], query_slot_.parity ^ 1U, "a query slot");
        constexpr int kEach = (kWideVectors + kPreparers - 1) / kPreparers;
        Vector vectors[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) vectors[i] = vector_of(item, kv_head, thread_ + i * kPreparers);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int m = thread_ + i * kPreparers;
            if (m < kWideVectors) shared_.vectors[slot][m] = vectors[i];
        }
        named_barrier_sync(kPreparerBarrier, kPreparers);
        std::byte* const to = shared_.queries[slot];
        for (int i = thread_; i < kWideVectors * kHalf; i += kPreparers) {
            const int m = i / kHalf;
            const int c = i % kHalf;
            const Vector vector = shared_.vectors[slot][m];
            if (vector.row >= 0) {
                const T* const from = a.queries + a.query_layout.offset(vector.row, vector.head);
                copy_async(to + offset(m, c), from + c * 8);
                copy_async(to + offset(m, c + kHalf), from + (c + kHalf) * 8);
                if (a.rope != nullptr) prefetch(rotations_of(max(0, vector.position - base), c));
            } else {
                *reinterpret_cast<uint4*>(to + offset(m, c)) = make_uint4(0, 0, 0, 0);
                *reinterpret_cast<uint4*>(to + offset(m, c + kHalf)) = make_uint4(0, 0, 0, 0);
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        if (a.rope != nullptr || p_.rule.query_sign != 1) {
#pragma unroll 1
            for (int i = thread_; i < kWideVectors * kHalf; i += kPreparers) {
                const int m = i / kHalf;
                const int c = i % kHalf;
                const Vector vector = shared_.vectors[slot][m];
                if (vector.row >= 0)
                    rotate(to + offset(m, c), to + offset(m, c + kHalf), max(0, vector.position - base), c);
            }
        }
        fence_async_proxy();
        barrier_arrive(&shared_.query_full[slot]);
        query_slot_.advance();
    }

    // The rotations of the 8 pairs of values from 8 c on.
    __device__ const float2* rotations_of(int position, int c) const {
        return p_.a.rope + static_cast<int64_t>(position) * (V::kHeadDim / 2) + c * 8;
    }

    static __device__ void copy_async(void* to, const void* from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    }

    // Rotates the pairs of values (8 c + i, 8 c + i + head_dim / 2) for `position`, and applies the scale's sign.
    __device__ void rotate(std::byte* low, std::byte* high, int position, int c) const {
        float x[8];
        float y[8];
        load_pack(reinterpret_cast<const T*>(low), x);
        load_pack(reinterpret_cast<const T*>(high), y);
        const auto sign = static_cast<float>(p_.rule.query_sign);
        float2 rotations[8];
        if (p_.a.rope != nullptr) {
            const float2* const from = rotations_of(position, c);
#pragma unroll
            for (int i = 0; i < 8; i += 2) {
                *reinterpret_cast<float4*>(rotations + i) = __ldg(reinterpret_cast<const float4*>(from + i));
            }
        } else {
#pragma unroll
            for (float2& to : rotations) to = make_float2(1, 0);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float rotated = (x[i] * rotations[i].x - y[i] * rotations[i].y) * sign;
            y[i] = (y[i] * rotations[i].x + x[i] * rotations[i].y) * sign;
            x[i] = rotated;
        }
        store_pack(reinterpret_cast<T*>(low), x);
        store_pack(reinterpret_cast<T*>(high), y);
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    int thread_;
    int lowest_ = 0;
    int highest_ = 0;
    RingPosition<kSteps> step_;
    RingPosition<V::kQuerySlots> query_slot_;
};

}  // namespace nanolith::cuda::wide
