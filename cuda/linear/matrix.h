// A weight matrix on the device, wide or compact.
#pragma once

#include <algorithm>
#include <vector>

#include "compact/layout.h"

namespace nanolith::cuda {

// [outputs, size], or nothing. Either `wide` is set, or `parts` has it as compact weights: one matrix under the other,
// each of one form; or a single gated one, and then outputs counts gate's rows and up's.
template <typename T>
struct DeviceMatrix {
    int outputs = 0;
    int size = 0;
    T* wide = nullptr;
    std::vector<CompactMatrix> parts = {};
    // Of a compact matrix: element i of a stored row is multiplied with input columns[i], [size]. Null: with input i.
    int32_t* columns = nullptr;

    [[nodiscard]] bool present() const { return wide != nullptr || !parts.empty(); }
    [[nodiscard]] bool compact() const { return !parts.empty(); }
    [[nodiscard]] bool gated() const { return compact() && parts.front().gated; }
};

}  // namespace nanolith::cuda
