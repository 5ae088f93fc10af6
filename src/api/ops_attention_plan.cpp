#include <algorithm>

#include "api/ops_check.h"
#include "api/ops_step.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

constexpr int64_t kMaxCapacity = int64_t{1} << 24;

TensorShape shape_of(const nl_attention_plan& plan, int64_t rows, int32_t heads) {
    return {plan.spec.dtype, rows, heads, plan.spec.head_dim, plan.device->kernels->alignment()};
}

}  // namespace

extern "C" {

nl_status nl_attention_plan_create(nl_ops* ops, const nl_attention_options* options, int64_t max_rows,
                                   int64_t max_sequences, int64_t max_segments, int64_t max_page_table,
                                   nl_attention_plan** plan) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(ops, "ops"));
        NL_TRY(check_pointer(plan, "plan"));
        NL_ASSIGN(const AttentionSpec spec, check_options(options));
        NL_TRY(check_range("max_rows", max_rows, 1, kMaxCapacity));
        NL_TRY(check_range("max_sequences", max_sequences, 1, kMaxCapacity));
        NL_TRY(check_range("max_segments", max_segments, 1, kMaxCapacity));
        NL_TRY(check_range("max_page_table", max_page_table, 1, kMaxCapacity));
        auto created = std::make_unique<nl_attention_plan>(ops->device);
        created->spec = spec;
        created->capacity = {static_cast<int32_t>(max_rows), static_cast<int32_t>(max_sequences),
                             static_cast<int32_t>(max_segments), static_cast<int32_t>(max_page_table)};
        created->k_scale = options->k_scale;
        created->v_scale = options->v_scale;
        {
            const std::lock_guard lock(ops->device->mutex);
            NL_ASSIGN(created->attention, ops->device->kernels->create_plan(spec, created->capacity));
        }
        *plan = created.release();
        return {};
    });
}

void nl_attention_plan_free(nl_attention_plan* plan) {
    drop(plan);
}

nl_status nl_attention_plan_set(nl_attention_plan* plan, int64_t num_pages, const int32_t* page_table,
                                size_t num_entries, const int32_t* segment_first_entries,
                                const int32_t* segment_lengths, const int32_t* segment_bases, size_t num_segments,
                                const int32_t* sequence_rows, const int32_t* sequence_segments, size_t num_sequences,
                                const int32_t* positions, size_t num_rows) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(plan, "plan"));
        StepArguments step;
        NL_ASSIGN(step.page_table, check_array(page_table, num_entries, "page_table", "num_entries"));
        NL_ASSIGN(step.first_entries,
                  check_array(segment_first_entries, num_segments, "segment_first_entries", "num_segments"));
        NL_ASSIGN(step.lengths, check_array(segment_lengths, num_segments, "segment_lengths", "num_segments"));
        NL_ASSIGN(step.bases, check_array(segment_bases, num_segments, "segment_bases", "num_segments"));
        NL_ASSIGN(step.sequence_rows, check_array(sequence_rows, num_sequences, "sequence_rows", "num_sequences"));
        NL_ASSIGN(step.sequence_segments,
                  check_array(sequence_segments, num_sequences, "sequence_segments", "num_sequences"));
        NL_ASSIGN(step.positions, check_array(positions, num_rows, "positions", "num_rows"));
        step.num_pages = num_pages;
        const std::lock_guard lock(plan->device->mutex);
        NL_ASSIGN(const AttentionStep checked,
                  check_step(step, plan->spec, plan->capacity, plan->segments, plan->sequences));
        NL_TRY(plan->attention->set(checked));
        plan->num_rows = static_cast<int64_t>(num_rows);
        return {};
    });
}

nl_status nl_attention_plan_set_slots(nl_attention_plan* plan, int64_t num_pages, const int32_t* slots,
                                      const int32_t* key_positions, size_t num_rows) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(plan, "plan"));
        NL_ASSIGN(const auto slot_span, check_array(slots, num_rows, "slots", "num_rows"));
        std::span<const int32_t> turns;
        if (!plan->spec.rope_frequencies.empty()) {
            NL_ASSIGN(turns, check_array(key_positions, num_rows, "key_positions", "num_rows"));
        } else if (key_positions != nullptr) {
            return fail(NL_ERROR_INVALID_ARGUMENT, "key_positions is ", key_positions,
                        ": expected NULL, as the options have no rotation");
        }
        const std::lock_guard lock(plan->device->mutex);
        NL_TRY(check_slots({num_pages, slot_span, turns}, plan->spec, plan->capacity, plan->sorted_slots));
        NL_TRY(plan->attention->set_slots(slot_span, turns));
        plan->num_slots = static_cast<int64_t>(num_rows);
        return {};
    });
}

nl_status nl_attention_plan_set_kv_scales(nl_attention_plan* plan, float k_scale, float v_scale) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(plan, "plan"));
        NL_TRY(check_kv_scales(k_scale, v_scale));
        const std::lock_guard lock(plan->device->mutex);
        plan->k_scale = k_scale;
        plan->v_scale = v_scale;
        return {};
    });
}

nl_status nl_kv_append(nl_attention_plan* plan, const void* k, int64_t k_row_stride, int64_t k_head_stride,
                       const void* v, int64_t v_row_stride, int64_t v_head_stride, void* pages) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(plan, "plan"));
        const std::lock_guard lock(plan->device->mutex);
        const TensorShape shape = shape_of(*plan, plan->num_slots, plan->spec.num_kv_heads);
        NL_ASSIGN(const auto keys, check_input("k", shape, k, k_row_stride, k_head_stride));
        NL_ASSIGN(const auto values, check_input("v", shape, v, v_row_stride, v_head_stride));
        NL_TRY(check_pages(pages, plan->spec, plan->num_slots, shape.alignment));
        return plan->attention->append(keys, values, {pages, plan->k_scale, plan->v_scale});
    });
}

nl_status nl_attention_run(nl_attention_plan* plan, const void* q, int64_t q_row_stride, int64_t q_head_stride,
                           const void* pages, void* out, int64_t out_row_stride, int64_t out_head_stride, float* lse) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(plan, "plan"));
        const std::lock_guard lock(plan->device->mutex);
        const TensorShape shape = shape_of(*plan, plan->num_rows, plan->spec.num_heads);
        NL_ASSIGN(const auto queries, check_input("q", shape, q, q_row_stride, q_head_stride));
        NL_TRY(check_pages(pages, plan->spec, plan->num_rows, shape.alignment));
        NL_ASSIGN(const auto output, check_output("out", shape, out, out_row_stride, out_head_stride));
        NL_TRY(check_address("lse", lse, sizeof(float)));
        return plan->attention->run(queries, {pages, plan->k_scale, plan->v_scale}, output, lse);
    });
}

}  // extern "C"
