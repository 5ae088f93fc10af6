#include "api/ops_check.h"

#include <cmath>
#include <limits>

namespace nanolith::api {

Result<DType> check_dtype(int32_t dtype) {
    switch (dtype) {
        case NL_DTYPE_F32:
            return DType::f32;
        case NL_DTYPE_F16:
            return DType::f16;
        case NL_DTYPE_BF16:
            return DType::bf16;
        default:
            return fail(NL_ERROR_INVALID_ARGUMENT, "dtype is ", dtype,
                        ": expected NL_DTYPE_F32, NL_DTYPE_F16 or NL_DTYPE_BF16");
    }
}

Result<void> check_kv_scales(float k_scale, float v_scale) {
    const auto good = [](float scale) { return std::isfinite(scale) && scale > 0; };
    if (!good(k_scale))
        return fail(NL_ERROR_INVALID_ARGUMENT, "k_scale is ", k_scale, ": expected a finite number above 0");
    if (!good(v_scale))
        return fail(NL_ERROR_INVALID_ARGUMENT, "v_scale is ", v_scale, ": expected a finite number above 0");
    return {};
}

Result<AttentionSpec> check_options(const nl_attention_options* options) {
    NL_TRY(check_pointer(options, "options"));
    AttentionSpec spec = options->spec;
    if (spec.num_heads == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "options have no heads: expected nl_attention_options_set_heads to be called before");
    if (spec.head_dim == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "options have no head_dim: expected nl_attention_options_set_head_dim to be called before");
    if (!spec.rope_frequencies.empty() && spec.rope_frequencies.size() * 2 != static_cast<size_t>(spec.head_dim))
        return fail(NL_ERROR_INVALID_ARGUMENT, "options have ", spec.rope_frequencies.size(),
                    " rotary frequencies: expected head_dim / 2 = ", spec.head_dim / 2);
    if (spec.window > 0 && !spec.causal)
        return fail(NL_ERROR_INVALID_ARGUMENT, "options have window ", spec.window,
                    " without causal attention: expected causal attention, or window 0");
    if (spec.scale == 0) spec.scale = 1.0F / std::sqrt(static_cast<float>(spec.head_dim));
    switch (options->kv_dtype) {
        case NL_DTYPE_AUTO:
            spec.kv_dtype = spec.dtype;
            break;
        case NL_DTYPE_F32:
            spec.kv_dtype = DType::f32;
            break;
        case NL_DTYPE_F16:
            spec.kv_dtype = DType::f16;
            break;
        case NL_DTYPE_BF16:
            spec.kv_dtype = DType::bf16;
            break;
        default:
            spec.kv_dtype = DType::f8_e4m3;
    }
    return spec;
}

Result<void> check_address(const char* name, const void* data, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(data) % bytes == 0) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", data, ": expected an address that is a multiple of ", bytes,
                " bytes");
}

Result<void> check_stride(const std::string& name, int64_t stride, int64_t count, int64_t least,
                          const TensorShape& shape) {
    if (count <= 1) return {};  // never used
    const auto bytes = static_cast<int64_t>(dtype_bytes(shape.dtype));
    const int64_t most = (std::numeric_limits<int64_t>::max() / 8) / count / bytes;
    if (stride < least || stride > most)
        return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", stride, ": expected ", least, " to ", most, " elements");
    if (static_cast<size_t>(stride) * dtype_bytes(shape.dtype) % shape.alignment != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", stride, ": expected a multiple of ",
                    shape.alignment / dtype_bytes(shape.dtype), " elements on this device");
    return {};
}

namespace {

Result<void> check_tensor(const char* name, const TensorShape& shape, const void* data, int64_t row_stride,
                          int64_t head_stride, int64_t least) {
    if (shape.num_rows == 0) return {};
    NL_TRY(check_pointer(data, name));
    NL_TRY(check_address(name, data, std::max(shape.alignment, dtype_bytes(shape.dtype))));
    NL_TRY(check_stride(std::string(name) + "_row_stride", row_stride, shape.num_rows, least, shape));
    return check_stride(std::string(name) + "_head_stride", head_stride, shape.num_heads, least, shape);
}

}  // namespace

Result<ConstHeadRows> check_input(const char* name, const TensorShape& shape, const void* data, int64_t row_stride,
                                  int64_t head_stride) {
    NL_TRY(check_tensor(name, shape, data, row_stride, head_stride, 0));
    return ConstHeadRows{data, row_stride, head_stride};
}

Result<MutableHeadRows> check_output(const char* name, const TensorShape& shape, void* data, int64_t row_stride,
                                     int64_t head_stride) {
    NL_TRY(check_tensor(name, shape, data, row_stride, head_stride, shape.size));
    return MutableHeadRows{data, row_stride, head_stride};
}

}  // namespace nanolith::api
