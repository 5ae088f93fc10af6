// Rows of any number format from and to float32, as the kernels on the callers' tensors read and write them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/kernels.h"

namespace nanolith::cpu {

// to[i] = from[i], exactly.
void load_row(DType dtype, const void* from, int64_t size, float* to);

// to[i] = from[i], rounded to nearest even; beyond the range of float8 to its largest number.
void store_row(DType dtype, const float* from, int64_t size, void* to);

// The address of element `offset` of a tensor.
inline const void* element(DType dtype, const void* data, int64_t offset) {
    return static_cast<const std::byte*>(data) + offset * static_cast<int64_t>(dtype_bytes(dtype));
}
inline void* element(DType dtype, void* data, int64_t offset) {
    return static_cast<std::byte*>(data) + offset * static_cast<int64_t>(dtype_bytes(dtype));
}

inline void load_head(DType dtype, const ConstHeadRows& from, int64_t row, int64_t head, int64_t size, float* to) {
    load_row(dtype, element(dtype, from.data, from.offset(row, head)), size, to);
}
inline void store_head(DType dtype, const float* from, int64_t size, const MutableHeadRows& to, int64_t row,
                       int64_t head) {
    store_row(dtype, from, size, element(dtype, to.data, to.offset(row, head)));
}

}  // namespace nanolith::cpu
