// A head of a row as the projection gives it, in a warp's registers: bias, norm and rotation are applied to it there. A
// lane holds two adjacent elements of the head's first half, and those that are rotated with them, half a head further.
#pragma once

#include "device/pair.cuh"
#include "device/reduce.cuh"

namespace nanolith::cuda {

// kDim: head_dim, or the next larger size that a kernel is compiled for. All lanes of a warp call together.
template <typename T, int kDim>
class ProjectedHead {
  public:
    // Takes the head of `head_dim` elements at `from` for the next read(), and reads what no launch of a step writes:
    // the head's bias and the norm's weights, each [head_dim] or null.
    __device__ __forceinline__ void take(const T* from, const T* bias, const float* norm, float epsilon, int head_dim) {
        from_ = from;
        half_ = head_dim / 2;
        epsilon_ = epsilon;
        normed_ = norm != nullptr;
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            const int i = element(j);
            bias_[j] = {};
            if (i >= half_) continue;
            if (bias != nullptr) bias_[j] = read_pairs(bias + i);
            if (norm != nullptr) weights_[j] = {read_two(norm + i), read_two(norm + i + half_)};
        }
    }

    // Reads the rotation of a position from `rope` [max_position, head_dim / 2]; null, or a position below 0: none.
    __device__ __forceinline__ void read_rotation(const float2* rope, int position) {
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            rotation_[j] = make_float4(1, 0, 1, 0);
            if (rope == nullptr || position < 0 || element(j) >= half_) continue;
            rotation_[j] = *reinterpret_cast<const float4*>(rope + static_cast<int64_t>(position) * half_ + element(j));
        }
    }

    // Reads the head, adds the bias and normalises.
    __device__ __forceinline__ void read() {
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            x_[j] = {};
            if (element(j) < half_) x_[j] = read_pairs(from_ + element(j));
        }
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            x_[j] = {{x_[j].low.x + bias_[j].low.x, x_[j].low.y + bias_[j].low.y},
                     {x_[j].high.x + bias_[j].high.x, x_[j].high.y + bias_[j].high.y}};
        }
        if (normed_) normalise();
    }

    // Calls visit(i, two elements of T from element i on) for each two elements of the head that the lane has,
    // `rotated` or as they are.
    template <typename Visit>
    __device__ __forceinline__ void for_pairs(bool rotated, const Visit& visit) const {
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            const int i = element(j);
            if (i >= half_) continue;
            const float4 r = rotated ? rotation_[j] : make_float4(1, 0, 1, 0);
            const Pairs& v = x_[j];
            visit(i, pack_pair(v.low.x * r.x - v.high.x * r.y, v.low.y * r.z - v.high.y * r.w, T()));
            visit(i + half_, pack_pair(v.high.x * r.x + v.low.x * r.y, v.high.y * r.z + v.low.y * r.w, T()));
        }
    }

  private:
    static constexpr int kWords = (kDim / 2 + 63) / 64;

    struct Pairs {
        float2 low;
        float2 high;
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

    __device__ __forceinline__ void normalise() {
        float squares = 0;
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            squares += x_[j].low.x * x_[j].low.x + x_[j].low.y * x_[j].low.y;
            squares += x_[j].high.x * x_[j].high.x + x_[j].high.y * x_[j].high.y;
        }
        const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(2 * half_) + epsilon_);
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
            if (element(j) >= half_) continue;
            x_[j].low = {x_[j].low.x * scale * weights_[j].low.x, x_[j].low.y * scale * weights_[j].low.y};
            x_[j].high = {x_[j].high.x * scale * weights_[j].high.x, x_[j].high.y * scale * weights_[j].high.y};
        }
    }

    const T* from_ = nullptr;
    int half_ = 0;
    bool normed_ = false;
    float epsilon_ = 0;
    Pairs bias_[kWords];
    Pairs weights_[kWords];  // of the norm
    float4 rotation_[kWords];
    Pairs x_[kWords];
};

}  // namespace nanolith::cuda
