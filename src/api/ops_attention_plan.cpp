#include "api/ops_check.h"
#include "api/ops_step.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

constexpr int64_t kMaxCapacity = int64_t{1} << 24;

Result<PlanCapacity> check_capacity(const nl_attention_capacity* capacity) {
    NL_TRY(check_struct("capacity", capacity));
    NL_TRY(check_range("capacity.max_rows", capacity->max_rows, 1, kMaxCapacity));
    NL_TRY(check_range("capacity.max_sequences", capacity->max_sequences, 1, kMaxCapacity));
    NL_TRY(check_range("capacity.max_segments", capacity->max_segments, 1, kMaxCapacity));
    NL_TRY(check_range("capacity.max_page_table", capacity->max_page_table, 1, kMaxCapacity));
    return PlanCapacity{static_cast<int32_t>(capacity->max_rows), static_cast<int32_t>(capacity->max_sequences),
                        static_cast<int32_t>(capacity->max_segments), static_cast<int32_t>(capacity->max_page_table)};
}

TensorShape shape_of(const nl_attention_plan& plan, int64_t rows, int32_t heads) {
    return {plan.spec.dtype, rows, heads, plan.spec.head_dim, plan.device->kernels->alignment()};
}

}  // namespace

extern "C" {

nl_status nl_attention_plan_create(nl_ops* ops, const nl_attention_options* options,
                                   const nl_attention_capacity* capacity, nl_attention_plan** plan) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_pointer(plan, "plan"));
        NL_ASSIGN(const AttentionSpec spec, check_options(options));
        NL_ASSIGN(const PlanCapacity checked, check_capacity(capacity));
        auto created = std::make_unique<nl_attention_plan>(ops->device);
        created->spec = spec;
        created->capacity = checked;
        created->k_scale = options->k_scale;
        created->v_scale = options->v_scale;
        {
            const std::lock_guard lock(ops->device->mutex);
            NL_ASSIGN(created->attention, ops->device->kernels->create_plan(spec, checked));
        }
        *plan = created.release();
        return {};
    });
}

void nl_attention_plan_free(nl_attention_plan* plan) {
    free_handle(plan);
}

nl_status nl_attention_plan_set(nl_attention_plan* plan, const nl_attention_step* step) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(plan, "plan"));
        NL_TRY(check_struct("step", step));
        const std::lock_guard lock(plan->device->mutex);
        NL_ASSIGN(const AttentionStep checked,
                  check_step(*step, plan->spec, plan->capacity, plan->segments, plan->sequences));
        NL_TRY(plan->attention->set(checked));
        plan->num_rows = static_cast<int64_t>(step->num_rows);
        return {};
    });
}

nl_status nl_attention_plan_set_slots(nl_attention_plan* plan, const nl_append_step* step) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(plan, "plan"));
        NL_TRY(check_struct("step", step));
        const std::lock_guard lock(plan->device->mutex);
        NL_ASSIGN(const AppendStep checked, check_slots(*step, plan->spec, plan->capacity, plan->sorted_slots));
        NL_TRY(plan->attention->set_slots(checked.slots, checked.key_positions));
        plan->num_slots = static_cast<int64_t>(step->num_rows);
        return {};
    });
}

nl_status nl_attention_plan_set_kv_scales(nl_attention_plan* plan, float k_scale, float v_scale) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(plan, "plan"));
        NL_TRY(check_kv_scales(k_scale, v_scale));
        const std::lock_guard lock(plan->device->mutex);
        plan->k_scale = k_scale;
        plan->v_scale = v_scale;
        return {};
    });
}

nl_status nl_kv_append(nl_attention_plan* plan, const nl_const_rows* k, const nl_const_rows* v, void* pages) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(plan, "plan"));
        NL_TRY(check_pointer(k, "k"));
        NL_TRY(check_pointer(v, "v"));
        const std::lock_guard lock(plan->device->mutex);
        const TensorShape shape = shape_of(*plan, plan->num_slots, plan->spec.num_kv_heads);
        NL_ASSIGN(const auto keys, check_input("k", shape, *k));
        NL_ASSIGN(const auto values, check_input("v", shape, *v));
        NL_TRY(check_pages(pages, plan->spec, plan->num_slots, shape.alignment));
        return plan->attention->append(keys, values, {pages, plan->k_scale, plan->v_scale});
    });
}

nl_status nl_attention_run(nl_attention_plan* plan, const nl_const_rows* q, const void* pages, const nl_rows* out,
                           float* lse) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(plan, "plan"));
        NL_TRY(check_pointer(q, "q"));
        NL_TRY(check_pointer(out, "out"));
        const std::lock_guard lock(plan->device->mutex);
        const TensorShape shape = shape_of(*plan, plan->num_rows, plan->spec.num_heads);
        NL_ASSIGN(const auto queries, check_input("q", shape, *q));
        NL_TRY(check_pages(pages, plan->spec, plan->num_rows, shape.alignment));
        NL_ASSIGN(const auto output, check_output("out", shape, *out));
        NL_TRY(check_address("lse", lse, sizeof(float)));
        return plan->attention->run(queries, {pages, plan->k_scale, plan->v_scale}, output, lse);
    });
}

}  // extern "C"
