#include "backend/cpu/rows.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/norm_rope.h"

namespace nanolith::cpu {

void load_row(DType dtype, const void* from, int64_t size, float* to) {
    switch (dtype) {
        case DType::f32:
            std::memcpy(to, from, static_cast<size_t>(size) * sizeof(float));
            return;
        case DType::f16:
            return convert(static_cast<const Half*>(from), size, to);
        case DType::bf16:
            return convert(static_cast<const BFloat16*>(from), size, to);
        case DType::f8_e4m3:
            return convert(static_cast<const Float8E4M3*>(from), size, to);
    }
}

void store_row(DType dtype, const float* from, int64_t size, void* to) {
    switch (dtype) {
        case DType::f32:
            std::copy_n(from, size, static_cast<float*>(to));
            return;
        case DType::f16:
            return convert(from, size, static_cast<Half*>(to));
        case DType::bf16:
            return convert(from, size, static_cast<BFloat16*>(to));
        case DType::f8_e4m3:
            return convert(from, size, static_cast<Float8E4M3*>(to));
    }
}

}  // namespace nanolith::cpu
