// The outputs of a staged product (staged.cu): where they go, and the partial sums that they are made of.
#pragma once

#include "device/activation.cuh"
#include "device/cluster.cuh"
#include "device/number.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "linear/staged_division.h"

namespace nanolith::cuda {

// An output takes a weight row, or two: kGated. base() is read before the sums are there. four() and one() write
// outputs from `at` on, counted over all rows of x; `others` are the sums of the second weight row. kSeveralStrips:
// whether a launch may give each thread block several strips, one after the other, whose sums it writes from registers.
// This takes registers that would keep a second thread block from a multiprocessor, so only logits do it, which have
// most strips.
struct NoBase {};

template <typename Output>
__device__ void store_four(Output* to, const float4& four) {
    if constexpr (sizeof(Output) == 4) {
        *reinterpret_cast<float4*>(to) = four;
    } else {
        *reinterpret_cast<uint2*>(to) = {pack_pair(four.x, four.y, Output()), pack_pair(four.z, four.w, Output())};
    }
}

template <typename Output>
struct StoreOutputs {
    static constexpr bool kGated = false;
    static constexpr bool kSeveralStrips = sizeof(Output) == 4;
    using Base = NoBase;
    Output* to;
    int outputs;

    __device__ Base base(int64_t /*at*/) const { return {}; }
    __device__ void four(int64_t at, Base, const float4& sums, const float4& /*others*/) const {
        store_four(to + at, sums);
    }
    __device__ void one(int64_t at, float sum, float /*other*/) const { to[at] = from_float<Output>(sum); }
};

// Adds to what is there.
struct AddOutputs {
    static constexpr bool kGated = false;
    static constexpr bool kSeveralStrips = false;
    using Base = float4;
    float* to;
    int outputs;

    __device__ Base base(int64_t at) const { return *reinterpret_cast<const float4*>(to + at); }
    __device__ void four(int64_t at, const Base& base, const float4& sums, const float4& /*others*/) const {
        store_four(to + at, {base.x + sums.x, base.y + sums.y, base.z + sums.z, base.w + sums.w});
    }
    __device__ void one(int64_t at, float sum, float /*other*/) const { to[at] += sum; }
};

template <typename T>
struct GateOutputs {
    static constexpr bool kGated = true;
    static constexpr bool kSeveralStrips = false;
    using Base = NoBase;
    T* to;
    int outputs;
    Activation activation;

    __device__ Base base(int64_t /*at*/) const { return {}; }
    __device__ void four(int64_t at, Base, const float4& sums, const float4& others) const {
        store_four(to + at, {gated(sums.x, others.x), gated(sums.y, others.y), gated(sums.z, others.z),
                             gated(sums.w, others.w)});
    }
    __device__ void one(int64_t at, float sum, float other) const { to[at] = from_float<T>(gated(sum, other)); }

  private:
    __device__ float gated(float sum, float other) const { return activate(activation, sum) * other; }
};

// Outputs of a tile.
template <typename Outputs>
constexpr int kTileOutputs = Outputs::kGated ? kStagedTile / 2 : kStagedTile;

// Partial sums in shared memory are [rows of x][kSumsRow] float32: four more than the weight rows of a strip, so that
// the lanes of a warp, which write eight weight rows of four rows of x at once, use different banks.
constexpr int kSumsRow = kMostStagedTiles * kStagedTile + 4;

// Four adjacent partial sums, added up over the cluster's blocks in their order. `at`: where this one has its own. All
// are loaded before the first is added, so that the loads overlap.
__device__ inline float4 add_up_staged(const float* at, int splits) {
    float4 parts[kStagedSplits];
#pragma unroll
    for (int i = 0; i < kStagedSplits; ++i) {
        if (i < splits) parts[i] = load_from_block(at, i);
    }
    float4 sums = parts[0];
#pragma unroll
    for (int i = 1; i < kStagedSplits; ++i) {
        if (i >= splits) break;
        sums = {sums.x + parts[i].x, sums.y + parts[i].y, sums.z + parts[i].z, sums.w + parts[i].w};
    }
    return sums;
}

// Writes the block's share of a strip's outputs, some rows of x, when all blocks of its cluster have their partial sums
// in `memory`: the strip's weight rows one after the other, those of gate before those of up. All threads of the block
// take part; each has the same four outputs of several rows.
template <int kThreads, typename Outputs>
__device__ void put_staged(const float* memory, const StagedDivision& division, int strip, const Outputs& to) {
    const auto splits = static_cast<uint32_t>(division.splits);
    const auto rows = static_cast<uint32_t>(division.rows);
    const uint32_t rank = splits == 1 ? 0 : static_cast<uint32_t>(cluster_rank());
    const uint32_t each = (rows + splits - 1) / splits;
    const uint32_t end = min((rank + 1) * each, rows);
    const int outputs = division.tiles * kTileOutputs<Outputs>;
    const auto fours = static_cast<uint32_t>(outputs) / 4;
    const uint32_t at_once = kThreads / fours;
    const auto output = static_cast<int>(threadIdx.x % fours * 4);
    const int first = strip * outputs + output;
    if (threadIdx.x >= at_once * fours || first >= to.outputs) return;
    const bool aligned = to.outputs % 4 == 0;
#pragma unroll 1
    for (uint32_t row = rank * each + threadIdx.x / fours; row < end; row += at_once) {
        const int64_t at = static_cast<int64_t>(row) * to.outputs + first;
        typename Outputs::Base base{};
        if (aligned) base = to.base(at);
        const float* const from = memory + row * kSumsRow + output;
        const float4 sums = add_up_staged(from, division.splits);
        float4 others = {};
        if constexpr (Outputs::kGated) others = add_up_staged(from + outputs, division.splits);
        if (aligned) {
            to.four(at, base, sums, others);
            continue;
        }
        const float of_sums[4] = {sums.x, sums.y, sums.z, sums.w};
        const float of_others[4] = {others.x, others.y, others.z, others.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (first + i < to.outputs) to.one(at + i, of_sums[i], of_others[i]);
        }
    }
}

}  // namespace nanolith::cuda
