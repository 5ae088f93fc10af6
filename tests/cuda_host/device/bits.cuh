// Stands in for cuda/device/bits.cuh.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

inline uint32_t in_register(uint32_t constant) {
    return constant;
}
template <uint32_t kMask>
uint32_t masked_or(uint32_t word, uint32_t bits) {
    return (word & kMask) | bits;
}
template <uint32_t kMask>
uint32_t masked_xor(uint32_t word, uint32_t bits) {
    return (word & kMask) ^ bits;
}

}  // namespace nanolith::cuda
