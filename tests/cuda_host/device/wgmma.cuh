// Stands in for the part of cuda/device/wgmma.cuh that compact products use: products whose operand A is in registers
// and whose operand B is in shared memory, K-major. A product is computed when it is started, so that there is nothing
// to wait for. Only the lanes of a warp exchange values: its 16 rows of the result need its own lanes' rows of A and no
// other warp's.
#pragma once

#include <cstdint>

#include "device/fragment.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

// An emulated descriptor: in bits 0 to 31 the operand's address, in bits 32 to 63 the distance in bytes from one group
// of eight rows to the next.
inline uint64_t wgmma_operand(uint32_t at, uint32_t eight_rows) {
    return uint64_t{eight_rows} << 32 | at;
}

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kPending>
void wgmma_wait() {}
template <int kColumns>
void wgmma_hold(Fragment<kColumns>&) {}

template <typename T, int kN>
struct Wgmma {
    template <bool kNMajor>
    static void multiply_add(Fragment<kN>& d, const uint32_t (&a)[4], uint64_t b, bool adds) {
        static_assert(!kNMajor);
        const int lane = static_cast<int>(threadIdx.x % 32);
        const emulated::Operands mine{{a[0], a[1], a[2], a[3]}, {}};
        const emulated::Operands* const* const all = emulated::all_lanes(&mine);
        for (int octet = 0; octet < kN / 8; ++octet) {
            for (int i = 0; i < 4; ++i) {
                const int column = 8 * octet + 2 * (lane % 4) + i % 2;
                float sum = adds ? d.octets[octet][i] : 0;
                for (int k = 0; k < 16; ++k) {
                    const uint32_t left = all[lane / 4 * 4 + k % 8 / 2]->a[i / 2 + (k < 8 ? 0 : 2)];
                    sum += emulated::value(emulated::half_word(left, k % 2), T()) *
                           emulated::value(element_of(b, column, k), T());
                }
                d.octets[octet][i] = sum;
            }
        }
        cuda_host::exchange(0, 0, "wgmma");  // `mine` lives until all have read it
    }

  private:
    static uint32_t element_of(uint64_t operand, int row, int k) {
        const auto at = static_cast<uintptr_t>(operand & 0xffffffffU);
        const auto eight_rows = static_cast<uintptr_t>(operand >> 32);
        const uintptr_t linear = reinterpret_cast<uintptr_t>(cuda_host::shared_memory()) + at +
                                 static_cast<uintptr_t>(row / 8) * eight_rows + static_cast<uintptr_t>(row % 8 * 128) +
                                 static_cast<uintptr_t>(2 * k);
        // The swizzle: address bits 4 to 6 ^= bits 7 to 9.
        return emulated::element(reinterpret_cast<const void*>(linear ^ (linear >> 7 & 7U) << 4), 0);
    }
};

}  // namespace nanolith::cuda
