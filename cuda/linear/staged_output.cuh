// How the kernel in staged.cu turns sums of products into outputs, and writes these.
#pragma once

#include "device/activation.cuh"
#include "device/cluster_sum.cuh"
#include "device/number.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "linear/staged_division.h"

namespace nanolith::cuda {

// Three kinds of outputs follow. Each has:
// - kGated: whether an output is made of two sums, of a weight row of gate and of one of up. If not, `others` are
// unused.
// - base(at): reads what outputs are to be added to, so that this read overlaps the adding up of their sums.
// - four(at, ...), one(at, ...): write outputs. `at` is the first one's index in [rows of x, outputs].
// - kSeveralStrips: whether a thread block may compute several strips in one launch. It then writes outputs from
//   registers, which takes so many of these that two thread blocks no longer fit on a multiprocessor. Only logits,
//   whose matrix has by far the most strips, gain by it.
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

// Writes a strip's outputs for some of the rows of x; the other blocks of the cluster write those of the other rows.
// All blocks must have their partial sums in `memory`, [rows of x][kSumsRow], where the columns are the strip's weight
// rows: first those of gate and then those of up, if the outputs are gated. All threads of the block call it. A thread
// writes four adjacent outputs of one row, then the same four of further rows.
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
        const float4 sums = cluster_sum<kStagedSplits>(from, division.splits);
        float4 others = {};
        if constexpr (Outputs::kGated) others = cluster_sum<kStagedSplits>(from + outputs, division.splits);
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
