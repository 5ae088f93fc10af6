// The preparing warp of the narrow kernel: it writes the steps, with their queries rotated, ahead of the consumers.
#pragma once

#include <climits>

#include "attention/common/scores.cuh"
#include "attention/narrow/shared.cuh"
#include "device/dependent.cuh"
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
                          if (index == 0) {
                              find_vectors(words);
                              if (p_.appends) prefetch_constants();
                              if (p_.waits) wait_for_launches_before();
                              prefetch_vectors();
                          }
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
        if (lane_index() < item_.num_vectors && item_.partial == kMergesOthers) {
            others_ = row_partials();
            prefetch(p_.a.work.partials + others_.first_partial);
        }
    }

    // What finish() reads.
    __device__ __forceinline__ void prefetch_constants() const {
        const float* const norm = p_.projected.q_norm.weight;
        const int at = lane_index() * kRowBytes / static_cast<int>(sizeof(float));
        if (norm != nullptr && at < p_.shape.head_dim) prefetch(norm + at);
        const auto* const bias = p_.projected.bias;
        if (bias != nullptr && lane_index() < item_.num_vectors)
            prefetch(bias + static_cast<int64_t>(head_) * p_.shape.head_dim);
    }

    __device__ __forceinline__ void prefetch_vectors() const {
        if (lane_index() >= item_.num_vectors || item_.num_vectors * kParts <= kWarp) return;  // read all at once
        const auto* const query = p_.a.queries + p_.a.query_layout.offset(row_, head_);
        prefetch(query);
        prefetch(query + p_.shape.head_dim / 2);
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

    // The same elements as float32: the lower four, then the higher.
    struct Quads {
        float elements[8];
    };

    // Writes the vectors, rotated for a span at `base`, to the step; `quads` are those that the lane has read first.
    // Rows of absent vectors keep any content: no row of a product depends on another row.
    __device__ __forceinline__ void rotate(Step<V>& step, int base, QuadPair& quads) const {
        const int parts = item_.num_vectors * kParts;
#pragma unroll 1
        for (int first = 0;;) {
            const int part = first + lane_index();
            Quads x = unpack(quads);
            if (p_.appends) finish(part, x);
            if (part < parts) write_quads(step.queries[part / kParts], part % kParts * 4, x, quads.rotations);
            first += kWarp;
            if (first >= parts) return;
            quads = read_quads(first + lane_index(), base);
        }
    }

    // Adds the bias to a vector's elements, and normalises: what remains to be done to queries as the projection gives
    // them. Called by the whole warp.
    __device__ __forceinline__ void finish(int part, Quads& x) const {
        if constexpr (V::kAppends) {
            static_assert(kWarp % kParts == 0);
            const int half = p_.shape.head_dim / 2;
            const int m = part / kParts;
            const int dim = part % kParts * 4;
            const int head = __shfl_sync(kAllLanes, head_, m);
            const bool exists = m < item_.num_vectors && dim < half;
            if (p_.projected.bias != nullptr && exists) {
                const auto* const bias = p_.projected.bias + static_cast<int64_t>(head) * p_.shape.head_dim + dim;
                const Quads added =
                    unpack({*reinterpret_cast<const uint2*>(bias), *reinterpret_cast<const uint2*>(bias + half), {}});
#pragma unroll
                for (int i = 0; i < 8; ++i) x.elements[i] += added.elements[i];
            }
            const float* const norm = p_.projected.q_norm.weight;
            if (norm == nullptr) return;
            float squares = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) squares += x.elements[i] * x.elements[i];
#pragma unroll
            for (int step = kParts / 2; step > 0; step /= 2) squares += __shfl_xor_sync(kAllLanes, squares, step);
            if (!exists) return;
            const float scale = rsqrtf(squares / static_cast<float>(2 * half) + p_.projected.q_norm.epsilon);
#pragma unroll
            for (int i = 0; i < 8; i += 2) {
                const float2 weights = *reinterpret_cast<const float2*>(norm + dim + i % 4 + i / 4 * half);
                x.elements[i] *= scale * weights.x;
                x.elements[i + 1] *= scale * weights.y;
            }
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

    __device__ __forceinline__ static Quads unpack(const QuadPair& quads) {
        const uint32_t words[] = {quads.low.x, quads.low.y, quads.high.x, quads.high.y};
        Quads x;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 two = unpack_pair(words[i], typename V::T());
            x.elements[2 * i] = two.x;
            x.elements[2 * i + 1] = two.y;
        }
        return x;
    }

    // Rotates the elements and writes them to the vector `to`.
    __device__ __forceinline__ void write_quads(typename V::M* to, int dim, const Quads& x,
                                                const float4 (&rotations)[2]) const {
        using M = typename V::M;
        const int half = p_.shape.head_dim / 2;
        uint32_t low[2];
        uint32_t high[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float* const l = x.elements + 2 * i;
            const float* const h = x.elements + 4 + 2 * i;
            const float4 r = rotations[i];
            low[i] = pack_pair(l[0] * r.x - h[0] * r.y, l[1] * r.z - h[1] * r.w, M());
            high[i] = pack_pair(h[0] * r.x + l[0] * r.y, h[1] * r.z + l[1] * r.w, M());
        }
        // Elements beyond head_dim are zeros, and follow the others.
        const bool inside = dim < half;
        *reinterpret_cast<uint2*>(to + (inside ? dim : dim + half)) = make_uint2(low[0], low[1]);
        *reinterpret_cast<uint2*>(to + (inside ? dim + half : dim + V::kDim / 2)) = make_uint2(high[0], high[1]);
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
