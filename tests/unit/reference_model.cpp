#include "unit/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nanolith::testing {
namespace {

// Spelled out by the definition of each format, apart from the library's own conversions.
double element(const WeightView& view, size_t i) {
    if (view.dtype == DType::f32) {
        float value = 0;
        std::memcpy(&value, view.data + 4 * i, 4);
        return static_cast<double>(value);
    }
    uint16_t bits = 0;
    std::memcpy(&bits, view.data + 2 * i, 2);
    const int fraction_bits = view.dtype == DType::f16 ? 10 : 7;
    const int exponent_bits = 15 - fraction_bits;
    const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

Row multiply(const std::vector<double>& matrix, const Row& x) {
    const size_t rows = matrix.size() / x.size();
    Row y(rows, 0.0);
    for (size_t n = 0; n < rows; ++n) {
        for (size_t k = 0; k < x.size(); ++k) y[n] += matrix[n * x.size() + k] * x[k];
    }
    return y;
}

Row rms_norm(const double* x, const std::vector<double>& weight, double epsilon) {
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
    const double root = std::sqrt(squares / static_cast<double>(weight.size()) + epsilon);
    Row y(weight.size());
    for (size_t i = 0; i < weight.size(); ++i) y[i] = x[i] / root * weight[i];
    return y;
}

void add_to(Row& y, const Row& x) {
    for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

void norm_heads(Row& heads, const std::vector<double>& weight, double epsilon) {
    for (size_t at = 0; !weight.empty() && at < heads.size(); at += weight.size()) {
        const Row normed = rms_norm(heads.data() + at, weight, epsilon);
        std::copy(normed.begin(), normed.end(), heads.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

}  // namespace

std::vector<double> widen(const WeightView& view) {
    if (!view.present()) return {};
    std::vector<double> wide(static_cast<size_t>(view.rows * view.cols));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = element(view, i);
    return wide;
}

ReferenceModel::ReferenceModel(const ModelSpec& spec, const ModelWeights& weights)
    : spec_(spec),
      embedding_(widen(weights.embedding)),
      final_norm_(widen(weights.final_norm)),
      head_(widen(weights.head)) {
    for (int32_t position = 0; position < spec.max_context; ++position) {
        for (const float frequency : spec.ropes.front().frequencies) {
            const double angle = position * static_cast<double>(frequency);
            turns_.push_back({std::cos(angle), std::sin(angle)});
        }
    }
    for (const LayerWeights& layer : weights.layers) {
        layers_.push_back({widen(layer.attention_norm), widen(layer.q_proj), widen(layer.k_proj), widen(layer.v_proj),
                           widen(layer.q_bias), widen(layer.k_bias), widen(layer.v_bias), widen(layer.q_norm),
                           widen(layer.k_norm), widen(layer.o_proj), widen(layer.mlp_norm), widen(layer.gate_proj),
                           widen(layer.up_proj), widen(layer.down_proj)});
    }
}

Row ReferenceModel::rotated(const double* head, int32_t position) const {
    const auto half = static_cast<size_t>(spec_.head_dim / 2);
    const Turn* turns = turns_.data() + static_cast<size_t>(position) * half;
    Row y(2 * half);
    for (size_t i = 0; i < half; ++i) {
        y[i] = head[i] * turns[i].cosine - head[half + i] * turns[i].sine;
        y[half + i] = head[half + i] * turns[i].cosine + head[i] * turns[i].sine;
    }
    return y;
}

void ReferenceModel::attend_head(const Row& query, const std::vector<Row>& keys,
                                 const std::vector<const double*>& values, double* out) const {
    std::vector<double> scores;
    for (const Row& key : keys) {
        double score = 0;
        for (size_t i = 0; i < query.size(); ++i) score += query[i] * key[i];
        scores.push_back(score * static_cast<double>(spec_.attention_scale));
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - highest);
    for (size_t t = 0; t < scores.size(); ++t) {
        for (size_t i = 0; i < query.size(); ++i) out[i] += scores[t] / total * values[t][i];
    }
}

Row ReferenceModel::attend(const Row& queries, int32_t position, int32_t layer,
                           const std::vector<ReferenceSpan>& spans) const {
    const auto dim = static_cast<size_t>(spec_.head_dim);
    const auto group = static_cast<size_t>(spec_.num_heads / spec_.num_kv_heads);
    Row out(queries.size(), 0.0);
    for (size_t kv_head = 0; kv_head < static_cast<size_t>(spec_.num_kv_heads); ++kv_head) {
        std::vector<Row> keys;
        std::vector<const double*> values;
        for (const ReferenceSpan& span : spans) {
            const auto& stored = span.cache->keys[static_cast<size_t>(layer)];
            for (int32_t t = 0; t < static_cast<int32_t>(stored.size()) && span.base + t <= position; ++t) {
                keys.push_back(rotated(stored[static_cast<size_t>(t)].data() + kv_head * dim, span.base + t));
                values.push_back(span.cache->values[static_cast<size_t>(layer)][static_cast<size_t>(t)].data() +
                                 kv_head * dim);
            }
        }
        for (size_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
            attend_head(rotated(queries.data() + head * dim, position), keys, values, out.data() + head * dim);
    }
    return out;
}

Row ReferenceModel::step(int32_t token, int32_t position, ReferenceCache& own,
                         const std::vector<ReferenceSpan>& spans) const {
    const auto hidden = static_cast<size_t>(spec_.hidden_size);
    const auto epsilon = static_cast<double>(spec_.norm_epsilon);
    const double* from = embedding_.data() + static_cast<size_t>(token) * hidden;
    Row x(from, from + hidden);
    for (size_t i = 0; i < layers_.size(); ++i) {
        const Layer& layer = layers_[i];
        const Row input = rms_norm(x.data(), layer.attention_norm, epsilon);
        Row q = multiply(layer.q_proj, input);
        Row k = multiply(layer.k_proj, input);
        Row v = multiply(layer.v_proj, input);
        add_to(q, layer.q_bias);
        add_to(k, layer.k_bias);
        add_to(v, layer.v_bias);
        norm_heads(q, layer.q_norm, epsilon);
        norm_heads(k, layer.k_norm, epsilon);
        own.keys[i].push_back(std::move(k));
        own.values[i].push_back(std::move(v));
        add_to(x, multiply(layer.o_proj, attend(q, position, static_cast<int32_t>(i), spans)));

        const Row mlp_input = rms_norm(x.data(), layer.mlp_norm, epsilon);
        Row gate = multiply(layer.gate_proj, mlp_input);
        const Row up = multiply(layer.up_proj, mlp_input);
        for (size_t n = 0; n < gate.size(); ++n) gate[n] = gate[n] / (1 + std::exp(-gate[n])) * up[n];
        add_to(x, multiply(layer.down_proj, gate));
    }
    return multiply(head_, rms_norm(x.data(), final_norm_, epsilon));
}

std::vector<Row> ReferenceModel::extend(ReferenceCache& own, int32_t own_base, const std::vector<ReferenceSpan>& before,
                                        const std::vector<int32_t>& tokens) const {
    own.keys.resize(layers_.size());
    own.values.resize(layers_.size());
    std::vector<ReferenceSpan> spans = before;
    spans.push_back({&own, own_base});
    std::vector<Row> logits;
    for (const int32_t token : tokens) {
        logits.push_back(step(token, own_base + own.length, own, spans));
        own.length += 1;
    }
    return logits;
}

}  // namespace nanolith::testing
