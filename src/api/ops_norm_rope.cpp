#include <algorithm>
#include <cmath>

#include "api/ops_check.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_rms_norm(nl_ops* ops, const nl_rms_norm_arguments* norm) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_struct("norm", norm));
        NL_ASSIGN(const DType format, check_dtype("norm.dtype", norm->dtype));
        NL_TRY(check_range("norm.num_rows", norm->num_rows, 0, INT32_MAX));
        NL_TRY(check_range("norm.num_heads", norm->num_heads, 1, 65536));
        NL_TRY(check_range("norm.size", norm->size, 1, 65536));
        if (!std::isfinite(norm->epsilon) || norm->epsilon < 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "norm.epsilon is ", norm->epsilon,
                        ": expected a finite number of at least 0");
        if (norm->num_rows == 0) return {};
        const TensorShape shape{format, norm->num_rows, norm->num_heads, norm->size, ops->device->kernels->alignment()};
        RmsNormArguments arguments{format, norm->num_rows, norm->num_heads, norm->size};
        NL_ASSIGN(arguments.x, check_input("norm.x", shape, norm->x));
        NL_TRY(check_pointer(norm->weight, "norm.weight"));
        NL_TRY(check_address("norm.weight", norm->weight, std::max(shape.alignment, dtype_bytes(format))));
        NL_ASSIGN(arguments.y, check_output("norm.y", shape, norm->y));
        arguments.weight = norm->weight;
        arguments.epsilon = norm->epsilon;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->rms_norm(arguments);
    });
}

nl_status nl_rope(nl_ops* ops, const nl_rope_arguments* rope) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_struct("rope", rope));
        NL_ASSIGN(const DType format, check_dtype("rope.dtype", rope->dtype));
        NL_TRY(check_range("rope.num_rows", rope->num_rows, 0, INT32_MAX));
        NL_TRY(check_range("rope.num_heads", rope->num_heads, 1, 65536));
        if (rope->head_dim < 2 || rope->head_dim > 256 || rope->head_dim % 2 != 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "rope.head_dim is ", rope->head_dim,
                        ": expected an even number from 2 to 256");
        if (rope->num_rows == 0) return {};
        const TensorShape shape{format, rope->num_rows, rope->num_heads, rope->head_dim,
                                ops->device->kernels->alignment()};
        RopeArguments arguments{format, rope->num_rows, rope->num_heads, rope->head_dim};
        NL_ASSIGN(arguments.x, check_input("rope.x", shape, rope->x));
        NL_TRY(check_pointer(rope->positions, "rope.positions"));
        NL_TRY(check_address("rope.positions", rope->positions, sizeof(int32_t)));
        NL_TRY(check_pointer(rope->frequencies, "rope.frequencies"));
        NL_TRY(check_address("rope.frequencies", rope->frequencies, sizeof(float)));
        NL_ASSIGN(arguments.y, check_output("rope.y", shape, rope->y));
        arguments.positions = rope->positions;
        arguments.frequencies = rope->frequencies;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->rope(arguments);
    });
}

}  // extern "C"
