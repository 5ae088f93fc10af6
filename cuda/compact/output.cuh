// Where the outputs of a product of compact weights go.
#pragma once

#include "compact/streamed_compact.h"
#include "device/activation.cuh"
#include "device/number.cuh"

namespace nanolith::cuda {

// Puts the sum of row `r` of a tile where it belongs. `other` is that of row r ^ 8.
template <typename T>
__device__ void put_output(const CompactOutput& output, const CompactMatrix& matrix, int row, int tile, int r,
                           float sum, float other) {
    const int of_tile = matrix.rows_of_tile();
    const int at = tile * of_tile + r;
    if (r >= of_tile || at >= matrix.outputs) return;
    const int64_t index = row * output.stride + at;
    switch (output.kind) {
        case CompactOutput::Kind::store16:
            static_cast<T*>(output.to)[index] = from_float<T>(sum);
            break;
        case CompactOutput::Kind::store32:
            static_cast<float*>(output.to)[index] = sum;
            break;
        case CompactOutput::Kind::add:
            static_cast<float*>(output.to)[index] += sum;
            break;
        case CompactOutput::Kind::gate:
            static_cast<T*>(output.to)[index] = from_float<T>(activate(output.activation, sum) * other);
            break;
    }
}

}  // namespace nanolith::cuda
