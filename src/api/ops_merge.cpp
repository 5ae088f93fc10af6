#include "api/ops_check.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_attention_merge(nl_ops* ops, int32_t dtype, int64_t num_parts, int64_t num_rows, int32_t num_heads,
                             int32_t head_dim, const void* outputs, int64_t part_stride, int64_t row_stride,
                             int64_t head_stride, const float* lse, int64_t lse_part_stride, void* out,
                             int64_t out_row_stride, int64_t out_head_stride, float* out_lse) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_ASSIGN(const DType format, check_dtype(dtype));
        NL_TRY(check_range("num_parts", num_parts, 1, 65536));
        NL_TRY(check_range("num_rows", num_rows, 0, INT32_MAX));
        NL_TRY(check_range("num_heads", num_heads, 1, 65536));
        NL_TRY(check_range("head_dim", head_dim, 1, 256));
        if (num_rows == 0) return {};
        const TensorShape shape{format, num_rows, num_heads, head_dim, ops->device->kernels->alignment()};
        MergeArguments arguments{format, num_parts, num_rows, num_heads, head_dim};
        NL_ASSIGN(arguments.outputs, check_input("outputs", shape, outputs, row_stride, head_stride));
        NL_TRY(check_stride("part_stride", part_stride, num_parts, 0, shape));
        NL_TRY(check_pointer(lse, "lse"));
        NL_TRY(check_address("lse", lse, sizeof(float)));
        NL_TRY(check_stride("lse_part_stride", lse_part_stride, num_parts, 0,
                            {DType::f32, num_rows, num_heads, 1, sizeof(float)}));
        NL_ASSIGN(arguments.out, check_output("out", shape, out, out_row_stride, out_head_stride));
        NL_TRY(check_address("out_lse", out_lse, sizeof(float)));
        arguments.part_stride = part_stride;
        arguments.lse = lse;
        arguments.lse_part_stride = lse_part_stride;
        arguments.out_lse = out_lse;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->merge(arguments);
    });
}

}  // extern "C"
