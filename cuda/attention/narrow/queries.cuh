// Prepares the query vectors of an item of the narrow kernel: reads them as the projection left them in device memory,
// applies bias, norm and rotation, and writes them to a step in shared memory.
#pragma once

#include "attention/narrow/shared.cuh"
#include "device/divide.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda::narrow {

// One warp's work on an item's query vectors. Each vector has kParts parts, numbered through all vectors of the item. A
// part is 4 elements of the vector's first half and the 4 elements half a vector further that are rotated with them. A
// lane has one part at a time: call take(), then read(), then write(). All lanes of a warp call together.
template <typename V>
class ItemQueries {
  public:
    static constexpr int kParts = V::kDim / 8;  // of a vector

    __device__ __forceinline__ ItemQueries(const Parameters<V>& p, int kv_head) : p_(p), kv_head_(kv_head) {}

    // In lane m: finds the row, the query head and the position of the item's vector m.
    __device__ __forceinline__ void find(const ItemWords& words) {
        item_ = words.item();
        row_ = words.row();
        position_ = words.position();
        int kv_group_head = item_.first_vector + lane_index();
        if (item_.first_vector + item_.num_vectors > p_.heads_per_kv) {
            const int entry = divide_small(kv_group_head, p_.heads_per_kv);
            kv_group_head -= entry * p_.heads_per_kv;
            if (entry > 0 && lane_index() < item_.num_vectors) {
                const QueryRow query = p_.a.work.queries[item_.first_query + entry];
                row_ = query.row;
                position_ = query.position;
            }
        }
        head_ = kv_head_ * p_.heads_per_kv + kv_group_head;
    }

    __device__ __forceinline__ const AttentionItem& item() const { return item_; }
    __device__ __forceinline__ int num_parts() const { return item_.num_vectors * kParts; }
    // Of the lane's vector.
    __device__ __forceinline__ bool exists() const { return lane_index() < item_.num_vectors; }
    __device__ __forceinline__ int row() const { return row_; }
    __device__ __forceinline__ int head() const { return head_; }
    __device__ __forceinline__ int kv_group_head() const { return head_ - kv_head_ * p_.heads_per_kv; }
    __device__ __forceinline__ int position() const { return position_; }

    // Brings the lane's vector to the L1 cache, where the item has more parts than the warp has lanes.
    __device__ __forceinline__ void prefetch_vector() const {
        if (!exists() || num_parts() <= kWarp) return;
        const auto* const query = p_.a.queries + p_.a.query_layout.offset(row_, head_);
        prefetch(query);
        prefetch(query + p_.shape.head_dim / 2);
    }

    // Gives each lane the part first + (the lane's number), and reads its cosines and sines for a span at `base`.
    __device__ __forceinline__ void take(int first, int base) {
        part_ = first + lane_index();
        const int m = vector();
        const int half = p_.shape.head_dim / 2;
        const int row = __shfl_sync(kAllLanes, row_, m);
        const int head = __shfl_sync(kAllLanes, head_, m);
        const int position = __shfl_sync(kAllLanes, position_, m) - base;
        rotations_[0] = rotations_[1] = make_float4(1, 0, 1, 0);
        if (!inside()) return;
        from_ = p_.a.queries + p_.a.query_layout.offset(row, head) + dim();
        if (p_.a.rope != nullptr && position >= 0) {
            const auto* const rotations =
                reinterpret_cast<const float4*>(p_.a.rope + static_cast<int64_t>(position) * half + dim());
            rotations_[0] = rotations[0];
            rotations_[1] = rotations[1];
        }
    }

    // Loads what finish() applies to the query elements that take() has given the lane: the bias of the query
    // projection and the weights of the query norm. A launch that does not append keys and values needs neither,
    // because the append kernel before it has added the bias and normalised the queries; then this does nothing.
    __device__ __forceinline__ void read_bias_and_norm() {
        if constexpr (!V::kAppends) return;
        bias_low_ = bias_high_ = {};
#pragma unroll
        for (float& weight : weights_) weight = 0;
        const int head = __shfl_sync(kAllLanes, head_, vector());
        if (!p_.appends || !inside()) return;
        const int half = p_.shape.head_dim / 2;
        if (p_.projected.bias != nullptr) {
            const auto* const bias = p_.projected.bias + (head * p_.shape.head_dim + dim());
            bias_low_ = *reinterpret_cast<const uint2*>(bias);
            bias_high_ = *reinterpret_cast<const uint2*>(bias + half);
        }
        const float* const norm = p_.projected.q_norm.weight;
        if (norm == nullptr) return;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const float2 two = *reinterpret_cast<const float2*>(norm + dim() + i % 4 + i / 4 * half);
            weights_[i] = two.x;
            weights_[i + 1] = two.y;
        }
    }

    // Reads the elements of the lane's part.
    __device__ __forceinline__ void read() {
        const int half = p_.shape.head_dim / 2;
        low_ = high_ = {};
        if (!inside()) return;
        low_ = *reinterpret_cast<const uint2*>(from_);
        high_ = *reinterpret_cast<const uint2*>(from_ + half);
    }

    // Writes the lane's part, rotated, to the step. Rows of vectors that the item does not have stay as they are: no
    // row of a product depends on another row.
    __device__ __forceinline__ void write(Step<V>& step) {
        using M = typename V::M;
        const int half = p_.shape.head_dim / 2;
        float x[8];  // the lower four, then the higher
        unpack(low_, high_, x);
        if constexpr (V::kAppends) {
            if (p_.appends) finish(x);
        }
        if (vector() >= item_.num_vectors) return;
        uint32_t low[2];
        uint32_t high[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float* const l = x + 2 * i;
            const float* const h = x + 4 + 2 * i;
            const float4 r = rotations_[i];
            low[i] = pack_pair(l[0] * r.x - h[0] * r.y, l[1] * r.z - h[1] * r.w, M());
            high[i] = pack_pair(h[0] * r.x + l[0] * r.y, h[1] * r.z + l[1] * r.w, M());
        }
        // Elements beyond head_dim are zeros, and follow the others.
        M* const to = step.queries[vector()] + (inside() ? dim() : dim() + half);
        *reinterpret_cast<uint2*>(to) = make_uint2(low[0], low[1]);
        *reinterpret_cast<uint2*>(to + (inside() ? half : V::kDim / 2 - half)) = make_uint2(high[0], high[1]);
    }

  private:
    // The vector that the lane's part is of, and the part's first element in it.
    __device__ __forceinline__ int vector() const {
        return part_ / kParts;
    }
    __device__ __forceinline__ int dim() const {
        return part_ % kParts * 4;
    }
    // Whether the item has that vector, and the elements are below head_dim.
    __device__ __forceinline__ bool inside() const {
        return vector() < item_.num_vectors && dim() < p_.shape.head_dim / 2;
    }

    // Adds the bias to the part's elements x, and multiplies them by the RMSNorm of their whole vector. Launches that
    // do not append get queries to which the append kernel has already done both.
    __device__ __forceinline__ void finish(float (&x)[8]) const {
        static_assert(kWarp % kParts == 0);
        float bias[8];
        unpack(bias_low_, bias_high_, bias);
        float squares = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] += bias[i];
            squares += x[i] * x[i];
        }
        if (p_.projected.q_norm.weight == nullptr) return;
#pragma unroll
        for (int step = kParts / 2; step > 0; step /= 2) squares += __shfl_xor_sync(kAllLanes, squares, step);
        const float scale = rsqrtf(squares / static_cast<float>(p_.shape.head_dim) + p_.projected.q_norm.epsilon);
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= scale * weights_[i];
    }

    __device__ __forceinline__ static void unpack(uint2 low, uint2 high, float (&x)[8]) {
        const uint32_t words[] = {low.x, low.y, high.x, high.y};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 two = unpack_pair(words[i], typename V::T());
            x[2 * i] = two.x;
            x[2 * i + 1] = two.y;
        }
    }

    const Parameters<V>& p_;
    const int kv_head_;
    AttentionItem item_{};
    int row_ = 0;  // of the lane's vector, like the next two
    int head_ = 0;
    int position_ = 0;
    int part_ = 0;  // of the lane, like all that follows
    const typename V::T* from_ = nullptr;
    float4 rotations_[2];  // cosine and sine of two pairs in each
    uint2 bias_low_;
    uint2 bias_high_;
    float weights_[8];  // of the norm
    uint2 low_;
    uint2 high_;
};

}  // namespace nanolith::cuda::narrow
