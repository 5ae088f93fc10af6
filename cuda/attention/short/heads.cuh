// The short kernel's work on queries, keys and values as the projection gives them: bias, norm, rotation. A warp for a
// head of a row; a lane holds two adjacent elements of the head's first half, and those that are rotated with them,
// half a head further.
#pragma once

#include "attention/short/shared.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda::short_attention {

template <typename T, int kDim>
class HeadWork {
  public:
    __device__ HeadWork(const Block<T, kDim>& block, const ShortArguments<T>& a, const HeadShape& shape)
        : block_(block), a_(a), shape_(shape), half_(shape.head_dim / 2) {}

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
        from_ = a_.queries + a_.query_layout.offset(block_.sequence.first_row + row_, head);
        const float* norm = a_.q_norm.weight;
        epsilon_ = a_.q_norm.epsilon;
        if (job >= block_.num_vectors()) {
            const int key = job - block_.num_vectors();
            row_ = key / 2;
            kind_ = key % 2 == 0 ? Kind::key : Kind::value;
            const int token = block_.rows[row_].token;
            const bool mine = token >= block_.share.first * kShortTokens && token < block_.share.end * kShortTokens;
            if (!mine) kind_ = Kind::none;
            const int batch_row = block_.sequence.first_row + row_;
            from_ = key % 2 == 0 ? a_.keys + a_.key_layout.offset(batch_row, block_.kv_head)
                                 : a_.values + a_.value_layout.offset(batch_row, block_.kv_head);
            head = shape_.num_heads + key % 2 * shape_.num_kv_heads + block_.kv_head;
            norm = key % 2 == 0 ? a_.k_norm.weight : nullptr;
            epsilon_ = a_.k_norm.epsilon;
        }
        if (kind_ == Kind::none) return;
        normed_ = norm != nullptr;
        const T* const bias = a_.bias == nullptr ? nullptr : a_.bias + static_cast<int64_t>(head) * shape_.head_dim;
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            const int i = element(j);
            bias_[j] = {};
            if (i >= half_) continue;
            if (bias != nullptr) bias_[j] = read_pairs(bias + i);
            if (norm != nullptr) weights_[j] = {read_two(norm + i), read_two(norm + i + half_)};
        }
        const int position =
            kind_ == Kind::query ? block_.rows[row_].position - block_.bases[0] : block_.rows[row_].key_position;
        read_rotation(position);
    }

    // Does it.
    __device__ __forceinline__ void run() {
        if (kind_ == Kind::none) return;
        Pairs x[kWords];
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            x[j] = {};
            if (element(j) < half_) x[j] = read_pairs(from_ + element(j));
        }
#pragma unroll
        for (int j = 0; j < kWords; ++j) x[j] = x[j] + bias_[j];
        if (normed_) normalise(x);
        if (kind_ == Kind::query) {
            for (int i = 0; i < block_.num_rotations; ++i) {
                if (i > 0) read_rotation(block_.rows[row_].position - block_.bases[i]);
                write(block_.query(i, vector_), x, true, nullptr);
            }
            return;
        }
        const ShortRow& row = block_.rows[row_];
        const int which = kind_ == Kind::key ? 0 : 1;
        const int at = row.token - block_.share.first * kShortTokens;
        T* const page = a_.pages + page_offset(shape_, row.slot / shape_.page_size, which, block_.kv_head,
                                               row.slot % shape_.page_size);
        write(which == 0 ? block_.key(at) : block_.value(at), x, which == 0, page);
    }

  private:
    enum class Kind : uint8_t { none, query, key, value };
    static constexpr int kWords = (kDim / 2 + 63) / 64;

    struct Pairs {
        float2 low;
        float2 high;
        __device__ __forceinline__ Pairs operator+(const Pairs& other) const {
            return {{low.x + other.low.x, low.y + other.low.y}, {high.x + other.high.x, high.y + other.high.y}};
        }
    };

    // The lane's first element in each of its words.
    __device__ __forceinline__ static int element(int word) {
        return 2 * (static_cast<int>(threadIdx.x) % kWarp) + 64 * word;
    }
    __device__ __forceinline__ static float2 read_two(const float* from) {
        return *reinterpret_cast<const float2*>(from);
    }
    __device__ __forceinline__ Pairs read_pairs(const T* from) const {
        const uint32_t low = *reinterpret_cast<const uint32_t*>(from);
        const uint32_t high = *reinterpret_cast<const uint32_t*>(from + half_);
        return {unpack_pair(low, T()), unpack_pair(high, T())};
    }

    __device__ __forceinline__ void read_rotation(int position) {
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            rotation_[j] = make_float4(1, 0, 1, 0);
            if (a_.rope == nullptr || position < 0 || element(j) >= half_) continue;
            rotation_[j] =
                *reinterpret_cast<const float4*>(a_.rope + static_cast<int64_t>(position) * half_ + element(j));
        }
    }

    __device__ __forceinline__ void normalise(Pairs (&x)[kWords]) const {
        float squares = 0;
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            squares += x[j].low.x * x[j].low.x + x[j].low.y * x[j].low.y;
            squares += x[j].high.x * x[j].high.x + x[j].high.y * x[j].high.y;
        }
        const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(shape_.head_dim) + epsilon_);
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            if (element(j) >= half_) continue;
            x[j].low = {x[j].low.x * scale * weights_[j].low.x, x[j].low.y * scale * weights_[j].low.y};
            x[j].high = {x[j].high.x * scale * weights_[j].high.x, x[j].high.y * scale * weights_[j].high.y};
        }
    }

    // Writes the head, `rotated` or as it is, to a row of shared memory, whose elements from head_dim on become zeros,
    // and to a page where there is one.
    __device__ __forceinline__ void write(T* to, const Pairs (&x)[kWords], bool rotated, T* page) const {
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            const int i = element(j);
            if (i >= half_) continue;
            const float4 r = rotated ? rotation_[j] : make_float4(1, 0, 1, 0);
            const Pairs& v = x[j];
            const uint32_t low = pack_pair(v.low.x * r.x - v.high.x * r.y, v.low.y * r.z - v.high.y * r.w, T());
            const uint32_t high = pack_pair(v.high.x * r.x + v.low.x * r.y, v.high.y * r.z + v.low.y * r.w, T());
            *reinterpret_cast<uint32_t*>(to + i) = low;
            *reinterpret_cast<uint32_t*>(to + i + half_) = high;
            if (page == nullptr) continue;
            *reinterpret_cast<uint32_t*>(page + i) = low;
            *reinterpret_cast<uint32_t*>(page + i + half_) = high;
        }
        for (int i = shape_.head_dim + element(0); i < kDim; i += 2 * kWarp) *reinterpret_cast<uint32_t*>(to + i) = 0;
    }

    const Block<T, kDim>& block_;
    const ShortArguments<T>& a_;
    const HeadShape& shape_;
    const int half_;
    Kind kind_ = Kind::none;
    int row_ = 0;     // of the sequence
    int vector_ = 0;  // of a query
    const T* from_ = nullptr;
    bool normed_ = false;
    float epsilon_ = 0;
    Pairs bias_[kWords];
    Pairs weights_[kWords];  // of the norm
    float4 rotation_[kWords];
};

}  // namespace nanolith::cuda::short_attention
