#include "support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

namespace nanolith::testing {
namespace {

// Spelled out by the definition of each format, apart from the library's own conversions.
double element(DType dtype, const std::byte* data, size_t i) {
    if (dtype == DType::f32) {
        float value = 0;
        std::memcpy(&value, data + 4 * i, 4);
        return static_cast<double>(value);
    }
    uint16_t bits = 0;
    if (dtype == DType::f8_e4m3) {
        bits = std::to_integer<uint16_t>(data[i]);
    } else {
        std::memcpy(&bits, data + 2 * i, 2);
    }
    const int fraction_bits = dtype == DType::f16 ? 10 : dtype == DType::bf16 ? 7 : 3;
    const int all_bits = dtype == DType::f8_e4m3 ? 8 : 16;
    const int exponent_bits = all_bits - 1 - fraction_bits;
    const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits >> (all_bits - 1)) != 0 ? -1 : 1;
    if (dtype == DType::f8_e4m3) {  // no infinities, one NaN
        if ((bits & 0x7FU) == 0x7FU) return std::nan("");
    } else if (exponent == (1 << exponent_bits) - 1) {
        return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
    }
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
        std::copy(normed.begin(), normed.end(), heads.begin() + at);
    }
}

double activate(Activation activation, double x) {
    if (activation == Activation::silu) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double capped(double x, float cap) {
    const auto wide = static_cast<double>(cap);
    return cap > 0 ? wide * std::tanh(x / wide) : x;
}

// The nearest number with 3 bits of fraction, exponents from -6 (and the multiples of 2^-9 below) and values up to 448;
// ties go to the even fraction.
double nearest_float8(double value) {
    constexpr double kHighest = 448;
    if (std::isnan(value)) return value;
    if (std::fabs(value) >= kHighest) return std::copysign(kHighest, value);
    const int exponent = std::max(value == 0 ? -6 : std::ilogb(value), -6);
    const double step = std::ldexp(1.0, exponent - 3);
    return std::nearbyint(value / step) * step;
}

}  // namespace

std::vector<double> widen(const WeightView& view) {
    if (!view.present()) return {};
    const bool is_vector = view.rows == 1;
    const int64_t group = std::max<int64_t>(static_cast<int64_t>(view.order.size()), 1);
    std::vector<double> wide;
    for (int64_t r = 0; r < view.rows; ++r) {
        for (int64_t c = 0; c < view.cols; ++c) {
            int64_t row = r;
            int64_t col = c;
            if (!view.order.empty()) {
                int64_t& output = is_vector ? col : row;
                output = output - output % group + view.order[output % group];
            }
            double value = element(view.dtype, view.data, static_cast<size_t>(row * view.cols + col));
            const WeightScales& scales = view.scales;
            if (scales.data != nullptr) {
                const int64_t block =
                    (scales.first_row + row) / scales.block_rows * scales.row_stride + col / scales.block_cols;
                value *= element(scales.dtype, scales.data, static_cast<size_t>(block));
            }
            wide.push_back(value);
        }
    }
    return wide;
}

Row ReferenceModel::norm_of(const WeightView& view) const {
    Row weight = widen(view);
    for (double& value : weight) value += static_cast<double>(spec_.norm_offset);
    return weight;
}

ReferenceModel::ReferenceModel(const ModelSpec& spec, const ModelWeights& weights, bool float8_pages)
    : spec_(spec),
      float8_pages_(float8_pages),
      embedding_(widen(weights.embedding)),
      final_norm_(norm_of(weights.final_norm)),
      head_(widen(weights.head)) {
    for (const RopeSpec& rope : spec.ropes) {
        std::vector<Turn>& turns = turns_.emplace_back();
        for (int32_t position = 0; position < spec.max_context; ++position) {
            for (size_t i = 0; i < rope.frequencies.size(); ++i) {
                const double angle = position * static_cast<double>(rope.frequencies[i]);
                const double magnitude = rope.magnitudes.empty() ? 1.0 : static_cast<double>(rope.magnitudes[i]);
                turns.push_back({magnitude * std::cos(angle), magnitude * std::sin(angle)});
            }
        }
    }
    for (const LayerWeights& from : weights.layers) {
        Layer& to = layers_.emplace_back();
        to.attention_norm = norm_of(from.attention_norm);
        to.q_proj = widen(from.q_proj);
        to.k_proj = widen(from.k_proj);
        to.v_proj = widen(from.v_proj);
        to.q_bias = widen(from.q_bias);
        to.k_bias = widen(from.k_bias);
        to.v_bias = widen(from.v_bias);
        to.q_norm = norm_of(from.q_norm);
        to.k_norm = norm_of(from.k_norm);
        to.o_proj = widen(from.o_proj);
        to.o_bias = widen(from.o_bias);
        to.attention_post_norm = norm_of(from.attention_post_norm);
        to.mlp_norm = norm_of(from.mlp_norm);
        to.mlp_post_norm = norm_of(from.mlp_post_norm);
        to.mlp = {widen(from.gate_proj), widen(from.up_proj), widen(from.down_proj),
                  widen(from.gate_bias), widen(from.up_bias), widen(from.down_bias)};
        to.router = widen(from.router);
        for (const ExpertWeights& expert : from.experts)
            to.experts.push_back({widen(expert.gate_proj), widen(expert.up_proj), widen(expert.down_proj), {}, {}, {}});
    }
}

Row ReferenceModel::rotated(const double* head, int32_t position, int32_t layer) const {
    const auto half = static_cast<size_t>(spec_.head_dim / 2);
    const auto rope = static_cast<size_t>(spec_.layers[layer].rope);
    const Turn* turns = turns_[rope].data() + static_cast<size_t>(position) * half;
    Row y(2 * half);
    for (size_t i = 0; i < half; ++i) {
        y[i] = head[i] * turns[i].cosine - head[half + i] * turns[i].sine;
        y[half + i] = head[half + i] * turns[i].cosine + head[i] * turns[i].sine;
    }
    return y;
}

void ReferenceModel::attend_head(const Row& query, const std::vector<Row>& keys,
                                 const std::vector<const double*>& values, double* out,
                                 const std::vector<double*>* add_to) const {
    std::vector<double> scores;
    for (const Row& key : keys) {
        double score = 0;
        for (size_t i = 0; i < query.size(); ++i) score += query[i] * key[i];
        scores.push_back(capped(score * static_cast<double>(spec_.attention_scale), spec_.attention_softcap));
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - highest);
    for (size_t t = 0; t < scores.size(); ++t) {
        if (add_to != nullptr) *(*add_to)[t] += scores[t] / total;
        for (size_t i = 0; i < query.size(); ++i) out[i] += scores[t] / total * values[t][i];
    }
}

Row ReferenceModel::attend(const Row& queries, int32_t position, int32_t layer,
                           const std::vector<ReferenceSpan>& spans) {
    const bool watches = std::ranges::find(watched_layers_, layer) != watched_layers_.end();
    if (watches) watched_.resize(spans.size());
    const auto dim = static_cast<size_t>(spec_.head_dim);
    const auto group = static_cast<size_t>(spec_.num_heads / spec_.num_kv_heads);
    const int32_t window = spec_.layers[layer].window;
    Row out(queries.size(), 0.0);
    for (size_t kv_head = 0; kv_head < static_cast<size_t>(spec_.num_kv_heads); ++kv_head) {
        std::vector<Row> keys;
        std::vector<const double*> values;
        std::vector<double*> add_to;
        for (size_t s = 0; s < spans.size(); ++s) {
            const ReferenceSpan& span = spans[s];
            const auto& stored = span.cache->keys[layer];
            if (watches) watched_[s].resize(stored.size());
            for (int32_t t = 0; t < static_cast<int32_t>(stored.size()); ++t) {
                const int32_t at = span.base + t;
                if (at > position || (window > 0 && at <= position - window)) continue;
                // A key in a float8 page is turned on from its place there to that in the sequence.
                const int32_t turn = float8_pages_ ? span.base : at;
                keys.push_back(rotated(stored[t].data() + kv_head * dim, turn, layer));
                values.push_back(span.cache->values[layer][t].data() + kv_head * dim);
                if (watches) add_to.push_back(&watched_[s][t]);
            }
        }
        for (size_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
            attend_head(rotated(queries.data() + head * dim, position, layer), keys, values, out.data() + head * dim,
                        watches ? &add_to : nullptr);
    }
    return out;
}

void ReferenceModel::round_to_float8(Row& keys, Row& values, int32_t position, int32_t layer) const {
    for (size_t head = 0; head < keys.size(); head += static_cast<size_t>(spec_.head_dim)) {
        const Row turned = rotated(keys.data() + head, position, layer);
        std::transform(turned.begin(), turned.end(), keys.begin() + head, nearest_float8);
    }
    std::transform(values.begin(), values.end(), values.begin(), nearest_float8);
}

Row ReferenceModel::apply(const Mlp& mlp, const Row& x) const {
    Row gate = multiply(mlp.gate_proj, x);
    Row up = multiply(mlp.up_proj, x);
    add_to(gate, mlp.gate_bias);
    add_to(up, mlp.up_bias);
    for (size_t n = 0; n < gate.size(); ++n) gate[n] = activate(spec_.activation, gate[n]) * up[n];
    Row y = multiply(mlp.down_proj, gate);
    add_to(y, mlp.down_bias);
    return y;
}

Row ReferenceModel::mix_experts(const Layer& layer, const Row& x) {
    const Row logits = multiply(layer.router, x);
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const auto top_k = static_cast<size_t>(spec_.experts.top_k);
    if (top_k < order.size())
        smallest_margin_ = std::min(smallest_margin_, logits[order[top_k - 1]] - logits[order[top_k]]);
    double total = 0;
    double chosen = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        total += std::exp(logits[order[i]]);
        if (i < top_k) chosen += std::exp(logits[order[i]]);
    }
    Row y(x.size(), 0.0);
    for (size_t i = 0; i < top_k; ++i) {
        const double share = std::exp(logits[order[i]]) / (spec_.experts.normalized ? chosen : total);
        const Row added = apply(layer.experts[order[i]], x);
        for (size_t n = 0; n < y.size(); ++n) y[n] += share * added[n];
    }
    return y;
}

Row ReferenceModel::step(int32_t token, int32_t position, ReferenceCache& own,
                         const std::vector<ReferenceSpan>& spans) {
    const auto hidden = static_cast<size_t>(spec_.hidden_size);
    const auto epsilon = static_cast<double>(spec_.norm_epsilon);
    const double* from = embedding_.data() + static_cast<size_t>(token) * hidden;
    Row x(from, from + hidden);
    for (double& value : x) value *= static_cast<double>(spec_.embedding_scale);
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
        if (float8_pages_) round_to_float8(k, v, own.length, static_cast<int32_t>(i));
        own.keys[i].push_back(std::move(k));
        own.values[i].push_back(std::move(v));
        Row attended = multiply(layer.o_proj, attend(q, position, static_cast<int32_t>(i), spans));
        add_to(attended, layer.o_bias);
        norm_heads(attended, layer.attention_post_norm, epsilon);
        add_to(x, attended);

        const Row mlp_input = rms_norm(x.data(), layer.mlp_norm, epsilon);
        Row added = layer.experts.empty() ? apply(layer.mlp, mlp_input) : mix_experts(layer, mlp_input);
        norm_heads(added, layer.mlp_post_norm, epsilon);
        add_to(x, added);
    }
    states_.push_back(rms_norm(x.data(), final_norm_, epsilon));
    Row logits = multiply(head_, states_.back());
    for (double& logit : logits) logit = capped(logit, spec_.logit_softcap);
    return logits;
}

std::vector<Row> ReferenceModel::extend(ReferenceCache& own, int32_t own_base, const std::vector<ReferenceSpan>& before,
                                        const std::vector<int32_t>& tokens) {
    own.keys.resize(layers_.size());
    own.values.resize(layers_.size());
    smallest_margin_ = std::numeric_limits<double>::infinity();
    states_.clear();
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
