// Stands in for cuda/device/wgmma.cuh, without N-major operands. A product is computed when it is started, so that
// there is nothing to wait for. Only the lanes of a warp exchange values: its 16 rows of the result need its own rows
// of A and no other warp's.
#pragma once

#include <cstdint>

#include "device/fragment.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

// An emulated descriptor: in bits 0 to 31 the operand's address in units of 16 bytes, as in the real one, in bits 32 to
// 63 the distance in bytes from one group of eight rows to the next.
inline uint64_t wgmma_operand(uint32_t at, uint32_t eight_rows) {
    return uint64_t{eight_rows} << 32 | at / 16;
}

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kPending>
void wgmma_wait() {}
template <int kColumns>
void wgmma_hold(Fragment<kColumns>&) {}
inline void wgmma_hold(uint32_t (&)[4]) {}

namespace emulated {

// The 16 values of row `row` of a K-major operand.
template <typename T>
void read_row(uint64_t operand, int row, float (&values)[16]) {
    const auto at = static_cast<uintptr_t>(operand & 0xffffffffU) * 16;
    const auto eight_rows = static_cast<uintptr_t>(operand >> 32);
    const uintptr_t linear = reinterpret_cast<uintptr_t>(cuda_host::shared_memory()) + at +
                             static_cast<uintptr_t>(row / 8) * eight_rows + static_cast<uintptr_t>(row % 8 * 128);
    for (uintptr_t half = 0; half < 2; ++half) {
        // The swizzle: address bits 4 to 6 ^= bits 7 to 9.
        const uintptr_t part = linear + 16 * half;
        const auto* const from = reinterpret_cast<const void*>(part ^ (part >> 7 & 7U) << 4);
        for (int i = 0; i < 8; ++i) values[8 * half + static_cast<uintptr_t>(i)] = value(element(from, i), T());
    }
}

}  // namespace emulated

template <typename T, int kN>
struct Wgmma {
    template <bool kNMajor>
    static void multiply_add(Fragment<kN>& d, const uint32_t (&a)[4], uint64_t b, bool adds) {
        static_assert(!kNMajor);
        const int lane = static_cast<int>(threadIdx.x % 32);
        const emulated::Operands mine{{a[0], a[1], a[2], a[3]}, {}};
        const emulated::Lanes<emulated::Operands> all = emulated::all_lanes(&mine);
        float rows[2][16];
        for (int half = 0; half < 2; ++half) {
            for (int k = 0; k < 16; ++k) {
                const uint32_t pair = all[lane / 4 * 4 + k % 8 / 2]->a[half + (k < 8 ? 0 : 2)];
                rows[half][k] = emulated::value(emulated::half_word(pair, k % 2), T());
            }
        }
        add_products(d, rows, b, adds);
        cuda_host::exchange(0, "wgmma");  // `mine` lives until all have read it
    }

    static void multiply_add(Fragment<kN>& d, uint64_t a, uint64_t b) {
        const int first_row = static_cast<int>(threadIdx.x % 128) / 32 * 16 + static_cast<int>(threadIdx.x % 32) / 4;
        float rows[2][16];
        for (int half = 0; half < 2; ++half) emulated::read_row<T>(a, first_row + 8 * half, rows[half]);
        add_products(d, rows, b, true);
        cuda_host::exchange(0, "wgmma");  // no lane goes on and lets an operand be overwritten
    }

  private:
    static void add_products(Fragment<kN>& d, const float (&rows)[2][16], uint64_t b, bool adds) {
        const int first_column = Fragment<kN>::first_column(static_cast<int>(threadIdx.x % 32));
        for (int octet = 0; octet < kN / 8; ++octet) {
            for (int i = 0; i < 2; ++i) {
                float column[16];
                emulated::read_row<T>(b, 8 * octet + first_column + i, column);
                for (int half = 0; half < 2; ++half) {
                    float sum = adds ? d.at(octet, half, i) : 0;
                    for (int k = 0; k < 16; ++k) sum += rows[half][k] * column[k];
                    d.at(octet, half, i) = sum;
                }
            }
        }
    }
};

}  // namespace nanolith::cuda
