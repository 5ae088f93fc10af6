#include <cmath>

#include "api/ops_check.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_rms_norm(nl_ops* ops, int32_t dtype, int64_t num_rows, int32_t num_heads, int32_t size, const void* x,
                      int64_t x_row_stride, int64_t x_head_stride, const void* weight, float epsilon, void* y,
                      int64_t y_row_stride, int64_t y_head_stride) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_ASSIGN(const DType format, check_dtype(dtype));
        NL_TRY(check_range("num_rows", num_rows, 0, INT32_MAX));
        NL_TRY(check_range("num_heads", num_heads, 1, 65536));
        NL_TRY(check_range("size", size, 1, 65536));
        if (!std::isfinite(epsilon) || epsilon < 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "epsilon is ", epsilon, ": expected a finite number of at least 0");
        if (num_rows == 0) return {};
        const TensorShape shape{format, num_rows, num_heads, size, ops->device->kernels->alignment()};
        RmsNormArguments arguments{format, num_rows, num_heads, size};
        NL_ASSIGN(arguments.x, check_input("x", shape, x, x_row_stride, x_head_stride));
        NL_TRY(check_pointer(weight, "weight"));
        NL_TRY(check_address("weight", weight, std::max(shape.alignment, dtype_bytes(format))));
        NL_ASSIGN(arguments.y, check_output("y", shape, y, y_row_stride, y_head_stride));
        arguments.weight = weight;
        arguments.epsilon = epsilon;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->rms_norm(arguments);
    });
}

nl_status nl_rope(nl_ops* ops, int32_t dtype, int64_t num_rows, int32_t num_heads, int32_t head_dim, const void* x,
                  int64_t x_row_stride, int64_t x_head_stride, const int32_t* positions, const float* frequencies,
                  void* y, int64_t y_row_stride, int64_t y_head_stride) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_ASSIGN(const DType format, check_dtype(dtype));
        NL_TRY(check_range("num_rows", num_rows, 0, INT32_MAX));
        NL_TRY(check_range("num_heads", num_heads, 1, 65536));
        if (head_dim < 2 || head_dim > 256 || head_dim % 2 != 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", head_dim, ": expected an even number from 2 to 256");
        if (num_rows == 0) return {};
        const TensorShape shape{format, num_rows, num_heads, head_dim, ops->device->kernels->alignment()};
        RopeArguments arguments{format, num_rows, num_heads, head_dim};
        NL_ASSIGN(arguments.x, check_input("x", shape, x, x_row_stride, x_head_stride));
        NL_TRY(check_pointer(positions, "positions"));
        NL_TRY(check_address("positions", positions, sizeof(int32_t)));
        NL_TRY(check_pointer(frequencies, "frequencies"));
        NL_TRY(check_address("frequencies", frequencies, sizeof(float)));
        NL_ASSIGN(arguments.y, check_output("y", shape, y, y_row_stride, y_head_stride));
        arguments.positions = positions;
        arguments.frequencies = frequencies;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->rope(arguments);
    });
}

}  // extern "C"
