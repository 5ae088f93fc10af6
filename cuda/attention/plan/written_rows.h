// Where a step's keys and values are written.
#pragma once

#include <cstdint>
#include <span>

namespace nanolith::cuda {

// The slots and positions of Batch. Empty: the keys and values are written before, by another launch.
struct WrittenRows {
    std::span<const int32_t> slots;          // [rows]
    std::span<const int32_t> key_positions;  // [rows]
};

}  // namespace nanolith::cuda
