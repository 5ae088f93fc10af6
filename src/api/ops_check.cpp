#include "api/ops_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace nanolith::api {

Result<DType> check_dtype(const char* name, int32_t dtype) {
    const auto known = dtype_of(dtype);
    if (known && *known != DType::f8_e4m3) return *known;
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", dtype,
                ": expected NL_DTYPE_F32, NL_DTYPE_F16 or NL_DTYPE_BF16");
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
    spec.kv_dtype = options->kv_dtype.value_or(spec.dtype);
    return spec;
}

Result<void> check_address(const char* name, const void* data, size_t bytes, const char* member) {
    if (reinterpret_cast<uintptr_t>(data) % bytes == 0) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, member, " is ", data, ": expected an address that is a multiple of ",
                bytes, " bytes");
}

Result<void> check_data(const char* name, const TensorShape& shape, const void* data) {
    if (data == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, name, ".data is NULL: expected a pointer");
    return check_address(name, data, std::max(shape.alignment, dtype_bytes(shape.dtype)), ".data");
}

Result<void> check_stride(const char* name, const char* member, int64_t stride, int64_t count, int64_t least,
                          const TensorShape& shape) {
    if (count <= 1) return {};  // never used
    const auto bytes = static_cast<int64_t>(dtype_bytes(shape.dtype));
    const int64_t most = (std::numeric_limits<int64_t>::max() / 8) / count / bytes;
    if (stride < least || stride > most)
        return fail(NL_ERROR_INVALID_ARGUMENT, name, member, " is ", stride, ": expected ", least, " to ", most,
                    " elements");
    if (static_cast<size_t>(stride) * dtype_bytes(shape.dtype) % shape.alignment != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, name, member, " is ", stride, ": expected a multiple of ",
                    shape.alignment / dtype_bytes(shape.dtype), " elements on this device");
    return {};
}

namespace {

// Rows is nl_rows or nl_const_rows, View what holds the same inside.
template <typename View, typename Rows>
Result<View> check_rows(const char* name, const TensorShape& shape, const Rows& rows, int64_t least) {
    const View view{rows.data, rows.row_stride, rows.head_stride};
    if (shape.num_rows == 0) return view;
    NL_TRY(check_data(name, shape, rows.data));
    NL_TRY(check_stride(name, ".row_stride", rows.row_stride, shape.num_rows, least, shape));
    NL_TRY(check_stride(name, ".head_stride", rows.head_stride, shape.num_heads, least, shape));
    return view;
}

// A member that is added to a struct must change its size, so none of them ends with padding.
template <typename Struct, typename Last>
constexpr bool ends_at(size_t offset_of_last) {
    return sizeof(Struct) == offset_of_last + sizeof(Last);
}
static_assert(ends_at<nl_attention_capacity, int64_t>(offsetof(nl_attention_capacity, max_page_table)));
static_assert(ends_at<nl_attention_step, size_t>(offsetof(nl_attention_step, num_rows)));
static_assert(ends_at<nl_append_step, size_t>(offsetof(nl_append_step, num_rows)));
static_assert(ends_at<nl_merge_arguments, float*>(offsetof(nl_merge_arguments, out_lse)));
static_assert(ends_at<nl_with_cache_arguments, int64_t>(offsetof(nl_with_cache_arguments, max_length)));
static_assert(ends_at<nl_rms_norm_arguments, nl_rows>(offsetof(nl_rms_norm_arguments, y)));
static_assert(ends_at<nl_rope_arguments, nl_rows>(offsetof(nl_rope_arguments, y)));

}  // namespace

Result<ConstHeadRows> check_input(const char* name, const TensorShape& shape, const nl_const_rows& rows) {
    return check_rows<ConstHeadRows>(name, shape, rows, 0);
}

Result<MutableHeadRows> check_output(const char* name, const TensorShape& shape, const nl_rows& rows) {
    return check_rows<MutableHeadRows>(name, shape, rows, shape.size);
}

}  // namespace nanolith::api
