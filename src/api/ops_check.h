// Argument checks that the functions of nanolith_ops.h share.
#pragma once

#include <cstdint>

#include "api/guard.h"
#include "api/ops_handles.h"

namespace nanolith::api {

inline Result<void> check_range(const char* name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ": expected ", least, " to ", most);
}

// A struct argument, called `name`. No struct has grown yet: its one size is the one that it has here.
template <typename Struct>
Result<void> check_struct(const char* name, const Struct* argument) {
    NL_TRY(check_pointer(argument, name));
    if (argument->struct_size == sizeof(Struct)) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, ".struct_size is ", argument->struct_size, ": expected ",
                sizeof(Struct), ", the sizeof of the struct in this version's header");
}

// The format of a tensor that is no page.
Result<DType> check_dtype(const char* name, int32_t dtype);

Result<void> check_kv_scales(float k_scale, float v_scale);

// The options as they stand, complete: heads and head dim are set, what has no value has its default.
Result<AttentionSpec> check_options(const nl_attention_options* options);

// The three sizes of a tensor [rows, heads, size], and the device whose alignment it must keep.
struct TensorShape {
    DType dtype = DType::f32;
    int64_t num_rows = 0;
    int64_t num_heads = 0;
    int64_t size = 0;
    size_t alignment = 1;  // bytes
};

// A tensor argument, called `name`, to be read or written. Without data only where it has no elements.
Result<ConstHeadRows> check_input(const char* name, const TensorShape& shape, const nl_const_rows& rows);
Result<MutableHeadRows> check_output(const char* name, const TensorShape& shape, const nl_rows& rows);

// The address `name`.data of a tensor: not NULL, and a multiple of an element's size and of the device's alignment.
Result<void> check_data(const char* name, const TensorShape& shape, const void* data);

// Errors call a value `name``member`; the member is a text of its own so that a good value costs no memory.

// The address alone: `bytes` divides it.
Result<void> check_address(const char* name, const void* data, size_t bytes, const char* member = "");

// One stride of `count` steps of a tensor, in elements. Tensors that are written need at least `least`, or their rows
// would overlap.
Result<void> check_stride(const char* name, const char* member, int64_t stride, int64_t count, int64_t least,
                          const TensorShape& shape);

}  // namespace nanolith::api
