// A matrix of every expert of a layer.
#pragma once

#include "compact/layout.h"

namespace nanolith::cuda {

// The experts' matrices have one size. Either all are wide, [experts, outputs, size], or all are compact and of one
// form, one expert's tiles behind the other's.
template <typename T>
struct ExpertMatrix {
    T* wide = nullptr;
    CompactMatrix first;  // the first expert's, where they are compact; those of the next are first.bytes() further

    [[nodiscard]] bool compact() const { return first.outputs > 0; }
    // The compact matrix of one of the experts.
    [[nodiscard]] CompactMatrix of(int64_t expert) const {
        CompactMatrix matrix = first;
        matrix.tiles += expert * first.bytes();
        return matrix;
    }
};

// What a layer's experts are, on the device.
template <typename T>
struct ExpertLayer {
    ExpertMatrix<T> gate_up;  // of an expert [2 * intermediate, hidden], gate above up; compact ones are gated
    ExpertMatrix<T> down;     // [hidden, intermediate]
};

}  // namespace nanolith::cuda
