// Bits of words that one instruction combines (PTX "lop3"), where the compiler would take two: an instruction has room
// for one constant alone, so that the other one must be in a register.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

// A constant that stays in a register.
__device__ inline uint32_t in_register(uint32_t constant) {
    uint32_t value = 0;
    asm volatile("mov.b32 %0, %1;" : "=r"(value) : "r"(constant));
    return value;
}

// (word & kMask) | bits
template <uint32_t kMask>
__device__ uint32_t masked_or(uint32_t word, uint32_t bits) {
    uint32_t value = 0;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(value) : "r"(word), "n"(kMask), "r"(bits));
    return value;
}

// (word & kMask) ^ bits
template <uint32_t kMask>
__device__ uint32_t masked_xor(uint32_t word, uint32_t bits) {
    uint32_t value = 0;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(value) : "r"(word), "n"(kMask), "r"(bits));
    return value;
}

}  // namespace nanolith::cuda
