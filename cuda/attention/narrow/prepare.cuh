// The preparing warp of the narrow kernel: it makes the steps, with their queries rotated, ahead of the consumers.
#pragma once

#include <climits>

#include "attention/common/place.cuh"
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
                      [&](const ItemWords& words, const Span& span, int index, bool ends, bool ends_block) {
                          if (index == 0) find_vector(words);
                          // What takes longest is asked for first.
                          Fours fours = read_fours(lane_index(), span.base);
                          Step<V>& step = shared_.steps[place_.stage];
                          barrier_wait(&shared_.step_empty[place_.stage], place_.parity ^ 1U, "a place for a step");
                          if (lane_index() == 0) {
                              step.item = item_;
                              step.first_token = span.first_token;
                              step.end_token = span.end_token;
                              step.begins = index == 0;
                              step.ends = ends;
                              step.ends_block = ends_block;
                          }
                          note_sight(step, span);
                          rotate(step, span.base, fours);
                          barrier_arrive(&shared_.step_full[place_.stage]);
                          place_.advance();
                      });
    }

  private:
    static constexpr int kParts = V::kDim / 8;  // of a vector

    // Lane m finds where vector m stands: its row, its query head, and its position counted like the spans' bases.
    __device__ __forceinline__ void find_vector(const ItemWords& words) {
        item_ = words.item();
        row_ = words.row();
        position_ = words.position();
        int in_group = item_.first_vector + lane_index();
        if (item_.first_vector + item_.num_vectors > p_.group) {
            const int entry = in_group / p_.group;
            in_group -= entry * p_.group;
            if (entry > 0 && lane_index() < item_.num_vectors) {
                const QueryRow query = p_.a.work.queries[item_.first_query + entry];
                row_ = query.row;
                position_ = query.position;
            }
        }
        head_ = kv_head_ * p_.group + in_group;
        if (lane_index() >= item_.num_vectors) return;
        if (item_.num_vectors * kParts > kWarp) {  // more than are read at once
            const auto* const query = p_.a.queries + p_.a.query_layout.offset(row_, head_);
            prefetch(query);
            prefetch(query + p_.shape.head_dim / 2);
        }
        if (item_.partial == kMergesRest) {
            rest_ = unit();
            prefetch(p_.a.work.partials + rest_.first_partial);
        }
    }

    // That of the lane's vector.
    __device__ __forceinline__ const RowPartials& unit() const {
        const int unit = (head_ - kv_head_ * p_.group) / p_.a.units.heads;
        return p_.a.work.units[static_cast<int64_t>(row_) * p_.a.units.count + unit];
    }

    __device__ __forceinline__ void note_sight(Step<V>& step, const Span& span) const {
        const bool there = lane_index() < item_.num_vectors;
        const Visible seen = there ? visible_tokens(p_.a, span, position_ - span.base) : Visible{0, 0};
        if (lane_index() < kVectors) {
            step.rows[lane_index()] = row_;
            step.heads[lane_index()] = head_;
            step.rest[lane_index()] = rest_;
            step.seen_first[lane_index()] = seen.first;
            step.seen_end[lane_index()] = seen.end;
        }
        const int all_first = __reduce_max_sync(kAllLanes, there ? seen.first : 0);
        const int all_end = __reduce_min_sync(kAllLanes, there ? seen.end : INT_MAX);
        if (lane_index() == 0) {
            step.all_first = all_first;
            step.all_end = all_end;
        }
    }

    // Four elements of a vector from `dim` on and four from dim + half on, and their rotations.
    struct Fours {
        uint2 low;
        uint2 high;
        float4 turns[2];
    };

    // Brings the vectors to the step as they are to stand for a span of that base; the first fours are there. Where
    // there are no vectors anything may be: the rows of a product don't meet.
    __device__ __forceinline__ void rotate(Step<V>& step, int base, Fours& fours) const {
        const int parts = item_.num_vectors * kParts;
#pragma unroll 1
        for (int first = 0;;) {
            const int part = first + lane_index();
            if (part < parts) write_fours(step.queries[part / kParts], part % kParts * 4, fours);
            first += kWarp;
            if (first >= parts) return;
            fours = read_fours(first + lane_index(), base);
        }
    }

    // To be called by the whole warp.
    __device__ __forceinline__ Fours read_fours(int part, int base) const {
        const int half = p_.shape.head_dim / 2;
        const int m = part / kParts;
        const int dim = part % kParts * 4;
        const int row = __shfl_sync(kAllLanes, row_, m);
        const int head = __shfl_sync(kAllLanes, head_, m);
        const int position = __shfl_sync(kAllLanes, position_, m) - base;
        Fours fours{};
        fours.turns[0] = fours.turns[1] = make_float4(1, 0, 1, 0);
        if (m >= item_.num_vectors || dim >= half) return fours;
        const typename V::T* const query = p_.a.queries + p_.a.query_layout.offset(row, head) + dim;
        fours.low = *reinterpret_cast<const uint2*>(query);
        fours.high = *reinterpret_cast<const uint2*>(query + half);
        if (p_.a.rope == nullptr || position < 0) return fours;
        const auto* const turns =
            reinterpret_cast<const float4*>(p_.a.rope + static_cast<int64_t>(position) * half + dim);
        fours.turns[0] = turns[0];
        fours.turns[1] = turns[1];
        return fours;
    }

    __device__ __forceinline__ void write_fours(typename V::M* to, int dim, const Fours& fours) const {
        const int half = p_.shape.head_dim / 2;
        uint2 low;
        uint2 high;
        turn_pair(fours.low.x, fours.high.x, fours.turns[0], low.x, high.x);
        turn_pair(fours.low.y, fours.high.y, fours.turns[1], low.y, high.y);
        // Elements beyond head_dim are zeros behind it.
        const bool inside = dim < half;
        *reinterpret_cast<uint2*>(to + (inside ? dim : dim + half)) = low;
        *reinterpret_cast<uint2*>(to + (inside ? dim + half : dim + V::kDim / 2)) = high;
    }

    __device__ __forceinline__ static void turn_pair(uint32_t from_low, uint32_t from_high, const float4& turn,
                                                     uint32_t& to_low, uint32_t& to_high) {
        using M = typename V::M;
        const float2 low = unpack_pair(from_low, typename V::T());
        const float2 high = unpack_pair(from_high, typename V::T());
        to_low = pack_pair(low.x * turn.x - high.x * turn.y, low.y * turn.z - high.y * turn.w, M());
        to_high = pack_pair(high.x * turn.x + low.x * turn.y, high.y * turn.z + low.y * turn.w, M());
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const int kv_head_;
    AttentionItem item_{};
    int row_ = 0;  // of the lane's vector, like what follows
    int head_ = 0;
    int position_ = 0;
    RowPartials rest_{};
    RingPlace<kSteps> place_;
};

}  // namespace nanolith::cuda::narrow
