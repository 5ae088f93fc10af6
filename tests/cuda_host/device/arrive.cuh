// Fibers take turns: an arrival is an addition.
#pragma once

#include <cstdint>

namespace nanolith::cuda {

inline int32_t arrive_on_device(int32_t* count) {
    return (*count)++;
}

}  // namespace nanolith::cuda
