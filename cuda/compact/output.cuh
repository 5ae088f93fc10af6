// Where the outputs of a product of compact weights go.
#pragma once

#include "compact/streamed_compact.h"
#include "device/activation.cuh"
#include "device/number.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda {

// What the sum of row `r` of a tile is to be added to: 0 unless outputs are added to others.
__device__ inline float base_of_output(const CompactOutput& output, const CompactMatrix& matrix, int row, int tile,
                                       int r) {
    const int at = tile * matrix.rows_of_tile() + r;
    if (output.kind != CompactOutput::Kind::add || r >= matrix.rows_of_tile() || at >= matrix.outputs) return 0;
    return static_cast<const float*>(output.to)[row * output.stride + at];
}

// Puts the sum of row `r` of a tile, to which its base_of_output() has been added, where it belongs. `other` is that of
// row r ^ 8.
template <typename T>
__device__ void put_output(const CompactOutput& output, const CompactMatrix& matrix, int row, int tile, int r,
                           float sum, float other) {
    const int of_tile = matrix.rows_of_tile();
    const int at = tile * of_tile + r;
    if (r >= of_tile || at >= matrix.outputs) return;
    const int64_t index = row * output.stride + at;
    switch (output.kind) {
        case CompactOutput::Kind::store16:
            static_cast<T*>(output.to)[index] = from_float<T>(sum);
            break;
        case CompactOutput::Kind::store32:
        case CompactOutput::Kind::add:
            static_cast<float*>(output.to)[index] = sum;
            break;
        case CompactOutput::Kind::gate:
            static_cast<T*>(output.to)[index] = from_float<T>(activate(output.activation, sum) * other);
            break;
    }
}

// Four adjacent outputs of a row, those of rows r to r + 3 of a tile, r being a multiple of 4: computed in parts, so
// that the loads of several fours overlap.
template <typename T>
class FourOutputs {
  public:
    // Loads what the outputs are to be added to.
    __device__ void begin(const CompactOutput& output, const CompactMatrix& matrix, int row, int tile, int r) {
        const int at = tile * matrix.rows_of_tile() + r;
        const bool wide = output.kind == CompactOutput::Kind::store32 || output.kind == CompactOutput::Kind::add;
        const int64_t index = row * output.stride + at;
        to_ = static_cast<std::byte*>(output.to) + index * (wide ? 4 : 2);
        whole_ = at + 4 <= matrix.outputs && reinterpret_cast<uintptr_t>(to_) % (wide ? 16 : 8) == 0;
        if (whole_ && output.kind == CompactOutput::Kind::add) had_ = *reinterpret_cast<const float4*>(to_);
    }

    // Writes them with one access to memory where they are aligned. `others`: the sums of rows r ^ 8 and on.
    __device__ void finish(const CompactOutput& output, const CompactMatrix& matrix, int row, int tile, int r,
                           const float4& sums, const float4& others) const {
        if (!whole_) {
            const auto pick = [](const float4& four, int i) {
                return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
            };
#pragma unroll 1
            for (int i = 0; i < 4; ++i) {
                const float base = base_of_output(output, matrix, row, tile, r + i);
                put_output<T>(output, matrix, row, tile, r + i, base + pick(sums, i), pick(others, i));
            }
            return;
        }
        switch (output.kind) {
            case CompactOutput::Kind::store16:
                store(sums);
                break;
            case CompactOutput::Kind::store32:
                *reinterpret_cast<float4*>(to_) = sums;
                break;
            case CompactOutput::Kind::add:
                *reinterpret_cast<float4*>(to_) =
                    make_float4(had_.x + sums.x, had_.y + sums.y, had_.z + sums.z, had_.w + sums.w);
                break;
            case CompactOutput::Kind::gate:
                store(make_float4(
                    activate(output.activation, sums.x) * others.x, activate(output.activation, sums.y) * others.y,
                    activate(output.activation, sums.z) * others.z, activate(output.activation, sums.w) * others.w));
                break;
        }
    }

  private:
    __device__ void store(const float4& values) const {
        *reinterpret_cast<uint2*>(to_) =
            make_uint2(pack_pair(values.x, values.y, T()), pack_pair(values.z, values.w, T()));
    }

    std::byte* to_;
    float4 had_;
    bool whole_;
};

}  // namespace nanolith::cuda
