#include "backend/weight_form.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>

namespace nanolith {
namespace {

CodeKind codes_of(WeightForm form) {
    return form == WeightForm::int4 ? CodeKind::bits4 : form == WeightForm::fp8 ? CodeKind::e4m3 : CodeKind::int8;
}

double bytes_of(const WeightView& weight, WeightForm form, DType dtype) {
    if (!weight.present()) return 0;
    const WeightView* const parts[] = {&weight};
    const double bits =
        is_compact(parts, form) ? bits_of(compact_form(weight, form)) : 8.0 * static_cast<double>(dtype_bytes(dtype));
    return static_cast<double>(weight.rows) * static_cast<double>(weight.cols) * bits / 8;
}

}  // namespace

const char* form_name(WeightForm form) {
    switch (form) {
        case WeightForm::source:
            return "as in the files";
        case WeightForm::wide:
            return "16 or 32 bits";
        case WeightForm::int8:
            return "int8";
        case WeightForm::int4:
            return "int4";
        case WeightForm::fp8:
            break;
    }
    return "fp8";
}

WeightForm table_form(WeightForm form) {
    return form == WeightForm::int4 ? WeightForm::int8 : form;
}

bool is_compact(std::span<const WeightView* const> parts, WeightForm form) {
    if (form == WeightForm::wide) return false;
    const auto is_in_order = [&](const WeightView* part) {
        return std::ranges::equal(part->columns, parts.front()->columns);
    };
    if (!std::ranges::all_of(parts, is_in_order)) return false;
    if (form != WeightForm::source) return true;
    return std::ranges::all_of(parts, [](const WeightView* part) { return part->compact != nullptr; });
}

CompactForm compact_form(const WeightView& weight, WeightForm form) {
    return weight.compact != nullptr ? weight.compact->form() : quantised_form(codes_of(form));
}

MatrixBytes matrix_bytes(const ModelWeights& weights, WeightForm form, DType dtype) {
    MatrixBytes bytes;
    bytes.head = bytes_of(weights.head, table_form(form), dtype);
    for (const LayerWeights& layer : weights.layers) {
        auto& [phases, has_experts] = bytes.layers.emplace_back();
        has_experts = !layer.experts.empty();
        const auto add = [&of = phases, form, dtype](Phase phase, std::initializer_list<const WeightView*> matrices) {
            for (const WeightView* matrix : matrices) of[index_of(phase)] += bytes_of(*matrix, form, dtype);
        };
        add(Phase::attention_input, {&layer.q_proj, &layer.k_proj, &layer.v_proj});
        add(Phase::attention_output, {&layer.o_proj});
        add(Phase::mlp_input, {&layer.gate_proj, &layer.up_proj});
        phases[index_of(Phase::mlp_input)] += bytes_of(layer.router, WeightForm::wide, dtype);
        add(Phase::mlp_output, {&layer.down_proj});
        for (const ExpertWeights& expert : layer.experts)
            add(Phase::mlp_output, {&expert.gate_proj, &expert.up_proj, &expert.down_proj});
    }
    return bytes;
}

uint64_t stored_bytes(const ModelWeights& weights, WeightForm form, DType dtype) {
    const MatrixBytes matrices = matrix_bytes(weights, form, dtype);
    double bytes = bytes_of(weights.embedding, table_form(form), dtype);
    if (weights.head.data != weights.embedding.data) bytes += matrices.head;
    for (const MatrixBytes::Layer& layer : matrices.layers)
        bytes += std::accumulate(layer.phases.begin(), layer.phases.end(), 0.0);
    return static_cast<uint64_t>(std::ceil(bytes));
}

}  // namespace nanolith
