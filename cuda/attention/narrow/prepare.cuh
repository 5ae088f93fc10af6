// The preparing warp of the narrow kernel: it writes the steps, with their queries rotated, ahead of the consumers.
#pragma once

#include <climits>

#include "attention/common/scores.cuh"
#include "attention/narrow/queries.cuh"
#include "device/dependent.cuh"

namespace nanolith::cuda::narrow {

// Writes the queries of the block's first step to shared memory. All consumer warps take part in it: until that step is
// ready they have nothing to do, and eight warps prepare the queries sooner than the one preparing warp would.
template <typename V>
__device__ __forceinline__ void write_first_queries(Shared<V>& shared, const Parameters<V>& p, int kv_head,
                                                    const ItemWords& first) {
    ItemQueries<V> queries(p, kv_head);
    queries.find(first);
    const int base = first.num_spans() > 0 ? first.span().base : 0;
#pragma unroll 1
    for (int part = warp_index() * kWarp; part < queries.num_parts(); part += V::kConsumers) {
        queries.take(part, base);
        queries.read_bias_and_norm();
        if (p.waits) wait_for_launches_before();
        queries.read();
        queries.write(shared.steps[0]);
    }
    __syncwarp();
    if (lane_index() == 0) barrier_arrive(&shared.step_full[0]);
}

template <typename V>
class Preparer {
  public:
    __device__ Preparer(Shared<V>& shared, const Parameters<V>& p, int kv_head)
        : shared_(shared), p_(p), queries_(p, kv_head) {}

    // Writes all steps of the block to shared memory. The consumers themselves add the queries of the first step
    // (write_first_queries).
    __device__ void run(const ItemWords& first) {
        bool consumers_write = true;
        for_each_span(p_.a.work, first,
                      [&](const ItemWords& words, const Span& span, int index, bool ends_item, bool ends_block) {
                          if (index == 0) find_vectors(words);
                          // The loads with the longest latency are started first.
                          if (!consumers_write) {
                              if (p_.waits) wait_for_launches_before();
                              if (index == 0) queries_.prefetch_vector();
                              read_part(0, span.base);
                          }
                          Step<V>& step = shared_.steps[step_.stage];
                          barrier_wait(&shared_.step_empty[step_.stage], step_.parity ^ 1U,
                                       "an empty stage for a step");
                          if (lane_index() == 0) {
                              step.item = queries_.item();
                              step.first_token = span.first_token;
                              step.end_token = span.end_token;
                              step.begins_item = index == 0;
                              step.ends_item = ends_item;
                              step.ends_block = ends_block;
                          }
                          write_visible(step, span);
                          if (!consumers_write) write_queries(step, span.base);
                          __syncwarp();
                          if (lane_index() == 0)
                              barrier_arrive(&shared_.step_full[step_.stage], consumers_write ? 1 : V::kWarps + 1);
                          consumers_write = false;
                          step_.advance();
                      });
    }

  private:
    __device__ __forceinline__ void find_vectors(const ItemWords& words) {
        queries_.find(words);
        if (queries_.exists() && queries_.item().partial == kMergesOthers) {
            others_ = row_partials();
            prefetch(p_.a.work.partials + others_.first_partial);
        }
    }

    // Of the row group that the lane's vector is in.
    __device__ __forceinline__ const RowPartials& row_partials() const {
        const int head_group = divide_small(queries_.kv_group_head(), p_.a.head_groups.heads);
        return p_.a.work.row_partials[static_cast<int64_t>(queries_.row()) * p_.a.head_groups.count + head_group];
    }

    // Writes which tokens the vectors attend to.
    __device__ __forceinline__ void write_visible(Step<V>& step, const Span& span) const {
        const bool exists = queries_.exists();
        const VisibleTokens visible =
            exists ? visible_tokens(p_.a.rule, span, queries_.position() - span.base) : VisibleTokens{0, 0};
        if (lane_index() < kVectors) {
            step.rows[lane_index()] = queries_.row();
            step.heads[lane_index()] = queries_.head();
            step.others[lane_index()] = others_;
            step.visible_first[lane_index()] = visible.first;
            step.visible_end[lane_index()] = visible.end;
        }
        const int unmasked_first = __reduce_max_sync(kAllLanes, exists ? visible.first : 0);
        const int unmasked_end = __reduce_min_sync(kAllLanes, exists ? visible.end : INT_MAX);
        if (lane_index() == 0) {
            step.unmasked_first = unmasked_first;
            step.unmasked_end = unmasked_end;
        }
    }

    // Reads the parts first + (the lane's number) of the item's queries, and their rotations for a span at `base`.
    __device__ __forceinline__ void read_part(int first, int base) {
        queries_.take(first, base);
        queries_.read();
    }

    // Writes the item's queries to the step, rotated for a span at `base`. The caller has read the first parts, one a
    // lane; the others are read here.
    __device__ __forceinline__ void write_queries(Step<V>& step, int base) {
#pragma unroll 1
        for (int first = 0;;) {
            queries_.read_bias_and_norm();
            queries_.write(step);
            first += kWarp;
            if (first >= queries_.num_parts()) return;
            read_part(first, base);
        }
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    ItemQueries<V> queries_;
    RowPartials others_{};
    RingPosition<kSteps> step_;
};

}  // namespace nanolith::cuda::narrow
