// How the wide attention kernel prepares an item's query vectors: it reads them from device memory, rotates them for
// their distance from the segment that they attend to, and writes them to a query slot in shared memory.
#pragma once

#include <cstdint>

#include "attention/wide/shared.cuh"
#include "device/dependent.cuh"
#include "device/divide.cuh"
#include "device/number.cuh"
#include "device/prefetch.cuh"

namespace nanolith::cuda::wide {

// Which row, query head and position the block's vector m is, of the item's vectors `of`. Row -1 if the block has no
// vector m.
template <typename V>
__device__ Vector vector_of(const Parameters<typename V::T>& p, const ItemVectors& of, int m) {
    const int in_item = cluster_rank<V>() * kWideVectors + m;
    if (in_item >= of.num_vectors) return {-1, 0, 0};
    const int vector = of.first_vector + in_item;
    const int entry = divide_small(vector, p.heads_per_kv);
    const QueryRow query = p.a.work.queries[of.first_query + entry];
    return {query.row, of.kv_head * p.heads_per_kv + vector - entry * p.heads_per_kv, query.position};
}

// Fills query slots. kThreads threads of the block call each function together; they use the named barrier kBarrier,
// which no other threads may use at the same time.
template <typename V, int kThreads, int kBarrier>
class QueryWriter {
  public:
    using T = typename V::T;

    // `thread`: the caller's number among the threads.
    __device__ QueryWriter(Shared<V>& shared, const Parameters<T>& parameters, int thread)
        : shared_(shared), p_(parameters), thread_(thread) {}

    // Fills query slot `slot` with an item's vectors, rotated for spans at `base`. Waits first until the launches
    // before this one, which write the queries, have ended. Products may read the slot when all kThreads threads have
    // returned and met in a barrier.
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

    // The cosines and sines that rotate 8 of a vector's pairs of values: pairs 8 * c to 8 * c + 7, by the angles for
    // `position`. A vector that stands before the span has a negative position. It attends to no token of the span, so
    // that its rotation does not matter: it gets that of position 0, since the table has no others.
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
