// Writes the query vectors of an item of the wide attention kernel to shared memory, rotated.
#pragma once

#include <cstdint>

#include "attention/wide/shared.cuh"
#include "device/dependent.cuh"
#include "device/divide.cuh"
#include "device/number.cuh"
#include "device/prefetch.cuh"

namespace nanolith::cuda::wide {

// Vector m of the block's part of an item's vectors.
template <typename V>
__device__ Vector vector_of(const Parameters<typename V::T>& p, const ItemVectors& of, int m) {
    const int in_item = cluster_rank<V>() * kWideVectors + m;
    if (in_item >= of.num_vectors) return {-1, 0, 0};
    const int vector = of.first_vector + in_item;
    const int entry = divide_small(vector, p.heads_per_kv);
    const QueryRow query = p.a.work.queries[of.first_query + entry];
    return {query.row, of.kv_head * p.heads_per_kv + vector - entry * p.heads_per_kv, query.position};
}

// kThreads threads write together. They meet in the named barrier kBarrier, which no other threads use meanwhile.
template <typename V, int kThreads, int kBarrier>
class QueryWriter {
  public:
    using T = typename V::T;

    // `thread`: the caller's number among the threads.
    __device__ QueryWriter(Shared<V>& shared, const Parameters<T>& parameters, int thread)
        : shared_(shared), p_(parameters), thread_(thread) {}

    // Waits for the launches before this one, and then fills a query slot with an item's vectors, rotated for spans at
    // `base`. Products may read them once all threads have met in another barrier.
    __device__ void write(int slot, const ItemVectors& of, int base) const {
        const AttentionArguments<T>& a = p_.a;
        constexpr int kEach = (kWideVectors + kThreads - 1) / kThreads;
        Vector vectors[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) vectors[i] = vector_of<V>(p_, of, thread_ + i * kThreads);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int m = thread_ + i * kThreads;
            if (m < kWideVectors) shared_.vectors[slot][m] = vectors[i];
        }
        named_barrier_sync(kBarrier, kThreads);
        wait_for_launches_before();
        std::byte* const to = shared_.queries[slot];
        for (int i = thread_; i < kWideVectors * kHalf; i += kThreads) {
            const int m = i / kHalf;
            const int c = i % kHalf;
            const Vector vector = shared_.vectors[slot][m];
            if (vector.row >= 0) {
                const T* const from = a.queries + a.query_layout.offset(vector.row, vector.head);
                copy_async(to + offset(m, c), from + c * 8);
                copy_async(to + offset(m, c + kHalf), from + (c + kHalf) * 8);
                if (a.rope != nullptr) prefetch(rotations_of(vector.position - base, c));
            } else {
                *reinterpret_cast<uint4*>(to + offset(m, c)) = make_uint4(0, 0, 0, 0);
                *reinterpret_cast<uint4*>(to + offset(m, c + kHalf)) = make_uint4(0, 0, 0, 0);
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        if (a.rope != nullptr || p_.rule.query_sign != 1) {
#pragma unroll 1
            for (int i = thread_; i < kWideVectors * kHalf; i += kThreads) {
                const int m = i / kHalf;
                const int c = i % kHalf;
                const Vector vector = shared_.vectors[slot][m];
                if (vector.row >= 0) rotate(to + offset(m, c), to + offset(m, c + kHalf), vector.position - base, c);
            }
        }
        fence_async_proxy();
    }

  private:
    static constexpr int kHalf = V::kHeadDim / 16;  // 16-byte columns of half a vector

    static __device__ int offset(int m, int c) {
        return query_swizzle_offset<V>(m, c);
    }

    // The rotations of the 8 pairs of values from 8 c on. Vectors before the span, whose position is negative, attend
    // to nothing of it; they get those of position 0.
    __device__ const float2* rotations_of(int position, int c) const {
        return p_.a.rope + static_cast<int64_t>(max(0, position)) * (V::kHeadDim / 2) + c * 8;
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
    const int thread_;
};

}  // namespace nanolith::cuda::wide
