// The values of a matrix product that one lane of a warp holds in registers, addressed by their row and column in the
// matrix instead of by register number.
//
// mma.sync (device/mma.cuh) and wgmma (device/wgmma.cuh) distribute a result in the same way. A warp holds 16 rows. A
// lane holds values of two of them: row lane / 4 (half 0) and row lane / 4 + 8 (half 1). From each octet of columns,
// [8 octet, 8 octet + 8), it holds the columns 2 (lane % 4) and 2 (lane % 4) + 1. The four lanes 4 i to 4 i + 3
// together therefore hold two whole rows.
#pragma once

#include <cstdint>

#include "device/pair.cuh"

namespace nanolith::cuda {

// A lane's part of 16 rows and kColumns columns of float32.
template <int kColumns>
struct Fragment {
    static constexpr int kOctets = kColumns / 8;
    static constexpr int kSlices = kColumns / 16;  // as the left operand of another product

    // For each octet of columns: two values of half 0, then two of half 1, as the instructions number the registers.
    float octets[kOctets][4];

    // Value i (0 or 1) of an octet and a half of the rows; its column in the octet is first_column(lane) + i.
    __device__ __forceinline__ float& at(int octet, int half, int i) { return octets[octet][2 * half + i]; }
    __device__ __forceinline__ float at(int octet, int half, int i) const { return octets[octet][2 * half + i]; }

    // Both of them.
    __device__ __forceinline__ float2 pair(int octet, int half) const {
        return make_float2(at(octet, half, 0), at(octet, half, 1));
    }

    // The first of a lane's two columns in each octet.
    __device__ __forceinline__ static int first_column(int lane) { return lane % 4 * 2; }

    // Calls f(value) for each value.
    template <typename F>
    __device__ __forceinline__ void for_each(const F& f) {
#pragma unroll
        for (int octet = 0; octet < kOctets; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) f(octets[octet][i]);
        }
    }

    __device__ __forceinline__ void add(const Fragment& other) {
#pragma unroll
        for (int octet = 0; octet < kOctets; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) octets[octet][i] += other.octets[octet][i];
        }
    }

    // Multiplies the values of each of the lane's two rows by the row's factor.
    __device__ __forceinline__ void scale_rows(const float (&factors)[2]) {
#pragma unroll
        for (int octet = 0; octet < kOctets; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) octets[octet][i] *= factors[i / 2];
        }
    }

    // Columns [16 slice, 16 slice + 16), rounded to T, as the left operand of a product.
    template <typename T>
    __device__ __forceinline__ void round_slice(int slice, uint32_t (&operand)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int octet = 2 * slice + i / 2;
            operand[i] = pack_pair(at(octet, i % 2, 0), at(octet, i % 2, 1), T());
        }
    }
};

}  // namespace nanolith::cuda
