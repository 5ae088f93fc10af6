// The preparing warps of the wide attention kernel: they go through the work list ahead of the other warps, find out
// which tiles each item reads, and write its queries, rotated, to shared memory. The consumers write those of the
// block's first step, since they have nothing else to do until then, and are more.
#pragma once

#include <climits>
#include <cstdint>

#include "attention/wide/queries.cuh"
#include "attention/wide/shared.cuh"
#include "device/dependent.cuh"

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
        // Also where the block has had no work: the next launch takes a block that ends for one that has waited
        // (Loader).
        wait_for_launches_before();
        // The last block to end resets the counters.
        if (V::kCluster == 1 && thread_ == 0 && atomicAdd(p_.counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
            p_.counters[0] = 0;
            p_.counters[1] = 0;
        }
    }

  private:
    // The next work of the counter, the same for all preparing threads.
    __device__ int claim() {
        wait_for_launches_before();
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
        step.vectors = {item.first_query, item.first_vector, item.num_vectors, kv_head};
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
            if (any) publish_step(step, end);
            if (end) break;
            any = true;
            step = next;
        }
        if (!any) write_nothing(step);
        return true;
    }

    // Writes the results of an item whose rows attend to no token.
    __device__ void write_nothing(const Step& step) const {
        const AttentionArguments<T>& a = p_.a;
        wait_for_launches_before();
        for (int m = thread_; m < kWideVectors; m += kPreparers) {
            const Vector vector = vector_of<V>(p_, step.vectors, m);
            if (vector.row < 0) return;
            if (step.partial >= 0) {
                const int64_t at = int64_t{step.partial} + m;
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
    __device__ void publish_step(Step& step, bool last) {
        step.last = last;
        push(step);
        if (!step.new_queries) return;
        const int slot = query_slot_.stage;
        barrier_wait(&shared_.query_empty[slot], query_slot_.parity ^ 1U, "a query slot");
        if (!consumers_write_) {
            QueryWriter<V, kPreparers, kPreparerBarrier>(shared_, p_, thread_).write(slot, step.vectors, step.base);
        }
        consumers_write_ = false;
        barrier_arrive(&shared_.query_full[slot]);
        query_slot_.advance();
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    int thread_;
    int lowest_ = 0;
    int highest_ = 0;
    bool consumers_write_ = true;  // whether the next queries are written by the consumers: those of the first step
    RingPosition<kSteps> step_;
    RingPosition<V::kQuerySlots> query_slot_;
};

}  // namespace nanolith::cuda::wide
