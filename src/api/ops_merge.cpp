#include "api/ops_check.h"

using namespace nanolith;
using namespace nanolith::api;

extern "C" {

nl_status nl_attention_merge(nl_ops* ops, const nl_merge_arguments* merge) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_struct("merge", merge));
        NL_ASSIGN(const DType format, check_dtype("merge.dtype", merge->dtype));
        NL_TRY(check_range("merge.num_parts", merge->num_parts, 1, 65536));
        NL_TRY(check_range("merge.num_rows", merge->num_rows, 0, INT32_MAX));
        NL_TRY(check_range("merge.num_heads", merge->num_heads, 1, 65536));
        NL_TRY(check_range("merge.head_dim", merge->head_dim, 1, 256));
        if (merge->num_rows == 0) return {};
        const TensorShape shape{format, merge->num_rows, merge->num_heads, merge->head_dim,
                                ops->device->kernels->alignment()};
        const TensorShape lse_shape{DType::f32, merge->num_rows, merge->num_heads, 1, sizeof(float)};
        MergeArguments arguments{format, merge->num_parts, merge->num_rows, merge->num_heads, merge->head_dim};
        NL_ASSIGN(arguments.outputs, check_input("merge.outputs", shape, merge->outputs));
        NL_TRY(check_stride("merge", ".part_stride", merge->part_stride, merge->num_parts, 0, shape));
        NL_TRY(check_pointer(merge->lse, "merge.lse"));
        NL_TRY(check_address("merge.lse", merge->lse, sizeof(float)));
        NL_TRY(check_stride("merge", ".lse_part_stride", merge->lse_part_stride, merge->num_parts, 0, lse_shape));
        NL_ASSIGN(arguments.out, check_output("merge.out", shape, merge->out));
        NL_TRY(check_address("merge.out_lse", merge->out_lse, sizeof(float)));
        arguments.part_stride = merge->part_stride;
        arguments.lse = merge->lse;
        arguments.lse_part_stride = merge->lse_part_stride;
        arguments.out_lse = merge->out_lse;
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->merge(arguments);
    });
}

}  // extern "C"
