// Stands in for cuda/device/async_copy.cuh: copies at once.
#pragma once

#include <cstring>

namespace nanolith::cuda {

inline void copy_async(void* shared, const void* global, bool exists) {
    if (exists) {
        std::memcpy(shared, global, 16);
    } else {
        std::memset(shared, 0, 16);
    }
}
inline void commit_copies() {}
template <int kPending>
void wait_for_copies() {}

}  // namespace nanolith::cuda
