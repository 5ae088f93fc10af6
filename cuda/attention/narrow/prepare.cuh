// The preparing warp of the narrow kernel: it writes the steps, with their queries rotated, ahead of the consumers.
#pragma once

#include <climits>

#include "attention/common/scores.cuh"
#include "attention/narrow/shared.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda::narrow {

template <typename V>
class Preparer {
  public:
    __device__ Preparer(Shared<V>& shared, const Parameters<V>& p, int kv_head)
        : shared_(shared), p_(p), kv_head_(kv_head) {}

    __device__ void run(const ItemWords& first) {
        for_each_span(p_.a.work, first,
                      [&](const ItemWords& words, const Span& span, int index, bool ends_item, bool ends_block) {
                          if (index == 0) find_vectors(words);
                          // The loads with the longest latency are started first.
                          QuadPair quads = read_quads(lane_index(), span.base);
                          Step<V>& step = shared_.steps[step_.stage];
                          barrier_wait(&shared_.step_empty[step_.stage], step_.parity ^ 1U,
                                       "an empty stage for a step");
                          if (lane_index() == 0) {
                              step.item = item_;
                              step.first_token = span.first_token;
                              step.end_token = span.end_token;
                              step.begins_item = index == 0;
                              step.ends_item = ends_item;
                              step.ends_block = ends_block;
                          }
                          write_visible(step, span);
                          rotate(step, span.base, quads);
                          barrier_arrive(&shared_.step_full[step_.stage]);
                          step_.advance();
                      });
    }

  private:
    static constexpr int kParts = V::kDim / 8;  // QuadPairs of a vector

    // Lane m finds the row, the query head and the position of vector m.
    __device__ __forceinline__ void find_vectors(const ItemWords& words) {
        item_ = words.item();
        row_ = words.row();
        position_ = words.position();
        int kv_group_head = item_.first_vector + lane_index();
        if (item_.first_vector + item_.num_vectors > p_.heads_per_kv) {
            const int entry = kv_group_head / p_.heads_per_kv;
            kv_group_head -= entry * p_.heads_per_kv;
            if (entry > 0 && lane_index() < item_.num_vectors) {
                const QueryRow query = p_.a.work.queries[item_.first_query + entry];
                row_ = query.row;
                position_ = query.position;
            }
        }
        head_ = kv_head_ * p_.heads_per_kv + kv_group_head;
        if (lane_index() >= item_.num_vectors) return;
        if (item_.num_vectors * kParts > kWarp) {  // more than the warp reads at once
            const auto* const query = p_.a.queries + p_.a.query_layout.offset(row_, head_);
            prefetch(query);
            prefetch(query + p_.shape.head_dim / 2);
        }
        if (item_.partial == kMergesOthers) {
            others_ = row_partials();
            prefetch(p_.a.work.partials + others_.first_partial);
        }
    }

    // Of the row group that the lane's vector is in.
    __device__ __forceinline__ const RowPartials& row_partials() const {
        const int head_group = (head_ - kv_head_ * p_.heads_per_kv) / p_.a.head_groups.heads;
        return p_.a.work.row_partials[static_cast<int64_t>(row_) * p_.a.head_groups.count + head_group];
    }

    // Writes which tokens the vectors attend to.
    __device__ __forceinline__ void write_visible(Step<V>& step, const Span& span) const {
        const bool exists = lane_index() < item_.num_vectors;
        const VisibleTokens visible =
            exists ? visible_tokens(p_.a.rule, span, position_ - span.base) : VisibleTokens{0, 0};
        if (lane_index() < kVectors) {
            step.rows[lane_index()] = row_;
            step.heads[lane_index()] = head_;
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

    // Elements [dim, dim + 4) of a vector and [dim + half, dim + half + 4), which are rotated together, and their
    // rotations: cosine and sine of two pairs in each float4.
    struct QuadPair {
        uint2 low;
        uint2 high;
        float4 rotations[2];
    };

    // Writes the vectors, rotated for a span at `base`, to the step; `quads` are those that the lane has read first.
    // Rows of absent vectors keep any content: no row of a product depends on another row.
    __device__ __forceinline__ void rotate(Step<V>& step, int base, QuadPair& quads) const {
        const int parts = item_.num_vectors * kParts;
#pragma unroll 1
        for (int first = 0;;) {
            const int part = first + lane_index();
            if (part < parts) write_quads(step.queries[part / kParts], part % kParts * 4, quads);
            first += kWarp;
            if (first >= parts) return;
            quads = read_quads(first + lane_index(), base);
        }
    }

    // Element pairs number `part` of the item's vectors. Called by the whole warp.
    __device__ __forceinline__ QuadPair read_quads(int part, int base) const {
        const int half = p_.shape.head_dim / 2;
        const int m = part / kParts;
        const int dim = part % kParts * 4;
        const int row = __shfl_sync(kAllLanes, row_, m);
        const int head = __shfl_sync(kAllLanes, head_, m);
        const int position = __shfl_sync(kAllLanes, position_, m) - base;
        QuadPair quads{};
        quads.rotations[0] = quads.rotations[1] = make_float4(1, 0, 1, 0);
        if (m >= item_.num_vectors || dim >= half) return quads;
        const typename V::T* const query = p_.a.queries + p_.a.query_layout.offset(row, head) + dim;
        quads.low = *reinterpret_cast<const uint2*>(query);
        quads.high = *reinterpret_cast<const uint2*>(query + half);
        if (p_.a.rope == nullptr || position < 0) return quads;
        const auto* const rotations =
            reinterpret_cast<const float4*>(p_.a.rope + static_cast<int64_t>(position) * half + dim);
        quads.rotations[0] = rotations[0];
        quads.rotations[1] = rotations[1];
        return quads;
    }

    __device__ __forceinline__ void write_quads(typename V::M* to, int dim, const QuadPair& quads) const {
        const int half = p_.shape.head_dim / 2;
        uint2 low;
        uint2 high;
        rotate_pair(quads.low.x, quads.high.x, quads.rotations[0], low.x, high.x);
        rotate_pair(quads.low.y, quads.high.y, quads.rotations[1], low.y, high.y);
        // Elements beyond head_dim are zeros, and follow the others.
        const bool inside = dim < half;
        *reinterpret_cast<uint2*>(to + (inside ? dim : dim + half)) = low;
        *reinterpret_cast<uint2*>(to + (inside ? dim + half : dim + V::kDim / 2)) = high;
    }

    __device__ __forceinline__ static void rotate_pair(uint32_t from_low, uint32_t from_high, const float4& rotation,
                                                       uint32_t& to_low, uint32_t& to_high) {
        using M = typename V::M;
        const float2 low = unpack_pair(from_low, typename V::T());
        const float2 high = unpack_pair(from_high, typename V::T());
        to_low = pack_pair(low.x * rotation.x - high.x * rotation.y, low.y * rotation.z - high.y * rotation.w, M());
        to_high = pack_pair(high.x * rotation.x + low.x * rotation.y, high.y * rotation.z + low.y * rotation.w, M());
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const int kv_head_;
    AttentionItem item_{};
    int row_ = 0;  // of the lane's vector, like the next three
    int head_ = 0;
    int position_ = 0;
    RowPartials others_{};
    RingPosition<kSteps> step_;
};

}  // namespace nanolith::cuda::narrow
