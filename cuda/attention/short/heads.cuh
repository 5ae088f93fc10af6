// The short kernel's work on queries, keys and values as the projection gives them: a warp for a head of a row.
#pragma once

#include "attention/common/projected_head.cuh"
#include "attention/short/shared.cuh"

namespace nanolith::cuda::short_attention {

template <typename T, int kDim>
class HeadWork {
  public:
    __device__ HeadWork(const Block<T, kDim>& block, const ShortArguments<T>& a, const HeadShape& shape)
        : block_(block), a_(a), shape_(shape) {}

    // The jobs: a query for each vector, where the block has tiles, then a key and a value for each row of the
    // sequence.
    [[nodiscard]] __device__ int count() const {
        return block_.num_tiles() == 0 ? 0 : block_.num_vectors() + 2 * block_.sequence.num_rows;
    }

    // Takes head number `job` of the block's queries, new keys and new values for the next run(), and reads what of it
    // the launches before this one do not write.
    __device__ __forceinline__ void prepare(int job) {
        vector_ = job;
        kind_ = Kind::query;
        row_ = job / block_.heads_per_kv;
        int head = block_.kv_head * block_.heads_per_kv + job % block_.heads_per_kv;
        const T* from = a_.queries + a_.query_layout.offset(block_.sequence.first_row + row_, head);
        const float* norm = a_.projected.q_norm.weight;
        float epsilon = a_.projected.q_norm.epsilon;
        if (job >= block_.num_vectors()) {
            const int key = job - block_.num_vectors();
            row_ = key / 2;
            kind_ = key % 2 == 0 ? Kind::key : Kind::value;
            const int token = block_.rows[row_].token;
            const bool mine = token >= block_.share.first * kShortTokens && token < block_.share.end * kShortTokens;
            if (!mine) kind_ = Kind::none;
            const int batch_row = block_.sequence.first_row + row_;
            from = key % 2 == 0 ? a_.projected.keys + a_.projected.key_layout.offset(batch_row, block_.kv_head)
                                : a_.projected.values + a_.projected.value_layout.offset(batch_row, block_.kv_head);
            head = shape_.num_heads + key % 2 * shape_.num_kv_heads + block_.kv_head;
            norm = key % 2 == 0 ? a_.projected.k_norm.weight : nullptr;
            epsilon = a_.projected.k_norm.epsilon;
        }
        if (kind_ == Kind::none) return;
        const T* const bias =
            a_.projected.bias == nullptr ? nullptr : a_.projected.bias + static_cast<int64_t>(head) * shape_.head_dim;
        head_.take(from, bias, norm, epsilon, shape_.head_dim);
        const ShortRow& row = block_.rows[row_];
        if (kind_ == Kind::query) {
            head_.read_rotation(a_.rope, row.position - block_.bases[0]);
            return;
        }
        const bool is_key = kind_ == Kind::key;
        if (is_key) head_.read_rotation(a_.rope, row.key_position);
        const int at = row.token - block_.share.first * kShortTokens;
        to_ = is_key ? block_.key(at) : block_.value(at);
        page_ = a_.pages + page_offset(shape_, row.slot / shape_.page_size, is_key ? 0 : 1, block_.kv_head,
                                       row.slot % shape_.page_size);
    }

    // Does it.
    __device__ __forceinline__ void run() {
        if (kind_ == Kind::none) return;
        head_.read();
        const int times = kind_ == Kind::query ? block_.num_rotations : 1;
#pragma unroll 1
        for (int i = 0; i < times; ++i) {
            if (i > 0) head_.read_rotation(a_.rope, block_.rows[row_].position - block_.bases[i]);
            write(kind_ == Kind::query ? block_.query(i, vector_) : to_);
        }
    }

  private:
    enum class Kind : uint8_t { none, query, key, value };

    // Writes the head, which is rotated unless it is a value, to a row of shared memory, whose elements from head_dim
    // on become zeros, and if it is a key or a value to its page.
    __device__ __forceinline__ void write(T* to) const {
        head_.for_pairs(kind_ != Kind::value, [&](int i, uint32_t pair) {
            *reinterpret_cast<uint32_t*>(to + i) = pair;
            if (kind_ != Kind::query) *reinterpret_cast<uint32_t*>(page_ + i) = pair;
        });
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        for (int i = shape_.head_dim + 2 * lane; i < kDim; i += 2 * kWarp) *reinterpret_cast<uint32_t*>(to + i) = 0;
    }

    const Block<T, kDim>& block_;
    const ShortArguments<T>& a_;
    const HeadShape& shape_;
    Kind kind_ = Kind::none;
    int row_ = 0;        // of the sequence
    int vector_ = 0;     // of a query
    T* to_ = nullptr;    // of a key or a value: its row in shared memory
    T* page_ = nullptr;  // and in its page
    ProjectedHead<T, kDim> head_;
};

}  // namespace nanolith::cuda::short_attention
