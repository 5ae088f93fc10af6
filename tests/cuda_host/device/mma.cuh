// Stands in for cuda/device/mma.cuh: a warp's fibers look at each other's operands.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "block.h"

namespace nanolith::cuda {

namespace emulated {

// What the lanes of a warp point to, by lane.
template <typename T>
class Lanes {
  public:
    explicit Lanes(const uint64_t* pointers) : pointers_(pointers) {}
    const T* operator[](int lane) const { return reinterpret_cast<const T*>(static_cast<uintptr_t>(pointers_[lane])); }

  private:
    const uint64_t* pointers_;
};

// Every lane's `operand`; what it points to must live until the next meeting of the warp.
template <typename T>
Lanes<T> all_lanes(const T* operand) {
    return Lanes<T>(cuda_host::exchange(reinterpret_cast<uintptr_t>(operand), "mma"));
}

inline uint32_t half_word(uint32_t pair, int which) {
    return which == 0 ? pair & 0xffffU : pair >> 16;
}
inline float value(uint32_t bits, __half) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
inline float value(uint32_t bits, __nv_bfloat16) {
    return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
}

struct Operands {
    uint32_t a[4];
    uint32_t b[2];
};

inline uint32_t element(const void* row, int column) {
    uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(row) + 2 * column, 2);
    return bits;
}

}  // namespace emulated

inline void load_matrices(uint32_t (&r)[4], const void* row) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const emulated::Lanes<char> all = emulated::all_lanes(static_cast<const char*>(row));
    for (int i = 0; i < 4; ++i) {
        const char* const from = all[8 * i + lane / 4];
        r[i] = emulated::element(from, 2 * (lane % 4)) | emulated::element(from, 2 * (lane % 4) + 1) << 16;
    }
}

inline void load_matrices_after(uint32_t, uint32_t (&r)[4], const void* row) {
    load_matrices(r, row);
}

inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const emulated::Lanes<char> all = emulated::all_lanes(static_cast<const char*>(row));
    for (int i = 0; i < 4; ++i) {
        r[i] = emulated::element(all[8 * i + 2 * (lane % 4)], lane / 4) |
               emulated::element(all[8 * i + 2 * (lane % 4) + 1], lane / 4) << 16;
    }
}

template <typename T>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T type) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const emulated::Operands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const emulated::Lanes<emulated::Operands> all = emulated::all_lanes(&mine);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i < 2 ? 0 : 8);
        const int column = 2 * (lane % 4) + i % 2;
        float sum = c[i];
        for (int k = 0; k < 16; ++k) {
            const uint32_t left = all[row % 8 * 4 + k % 8 / 2]->a[(row < 8 ? 0 : 1) + (k < 8 ? 0 : 2)];
            const uint32_t right = all[column * 4 + k % 8 / 2]->b[k < 8 ? 0 : 1];
            sum += emulated::value(emulated::half_word(left, k % 2), type) *
                   emulated::value(emulated::half_word(right, k % 2), type);
        }
        c[i] = sum;
    }
    cuda_host::exchange(0, "mma");  // `mine` lives until all have read it
}
template <typename T>
void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T type) {
    for (float& sum : c) sum = 0;
    multiply_add(c, a, b0, b1, type);
}

}  // namespace nanolith::cuda
