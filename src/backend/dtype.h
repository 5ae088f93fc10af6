// The formats of numbers in weights, activations and key-value pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "nanolith/nanolith.h"

namespace nanolith {

enum class DType : uint8_t {
    f32,
    f16,
    bf16,
    f8_e4m3  // only of weights in files and of key-value pages
};

constexpr size_t dtype_bytes(DType dtype) {
    return dtype == DType::f32 ? 4 : dtype == DType::f8_e4m3 ? 1 : 2;
}
constexpr const char* dtype_name(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "float32";
        case DType::f16:
            return "float16";
        case DType::bf16:
            return "bfloat16";
        case DType::f8_e4m3:
            break;
    }
    return "float8_e4m3";
}

// The number NL_DTYPE_* of each DType, in the order of the DTypes.
constexpr std::array<int32_t, 4> kDTypeNumbers = {NL_DTYPE_F32, NL_DTYPE_F16, NL_DTYPE_BF16, NL_DTYPE_F8_E4M3};

constexpr int32_t dtype_number(DType dtype) {
    return kDTypeNumbers[static_cast<size_t>(dtype)];
}
// The DType that the number NL_DTYPE_* names; none for NL_DTYPE_AUTO and for numbers that are not among these.
constexpr std::optional<DType> dtype_of(int32_t number) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3})
        if (dtype_number(dtype) == number) return dtype;
    return std::nullopt;
}

}  // namespace nanolith
