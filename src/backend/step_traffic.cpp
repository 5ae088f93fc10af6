#include "backend/step_traffic.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace nanolith {
namespace {

constexpr double kFloatBytes = 4;  // of the residual stream and of logits

// Tokens [first, last) of a segment.
struct TokenRange {
    int64_t first = 0;
    int64_t last = 0;
};

// What the rows of a batch see of the cache in a layer with this window.
struct Visible {
    double distinct_tokens = 0;  // that any row sees, each counted once
    double seen_tokens = 0;      // summed over the rows
};

// Tokens of the segment that the query at `position` sees.
TokenRange seen_from(const Segment& segment, int64_t position, int32_t window) {
    const int64_t last = std::min<int64_t>(segment.length, position - segment.base + 1);
    const int64_t first = window > 0 ? std::max<int64_t>(position - window + 1 - segment.base, 0) : 0;
    return {first, std::max(first, last)};
}

Visible visible(const Batch& batch, int32_t window) {
    Visible total;
    // Of the segments that begin with this page. Ranges of sequences that share one are joined.
    std::map<int32_t, TokenRange> by_page;
    for (const Sequence& sequence : batch.sequences) {
        for (int32_t i = 0; i < sequence.num_segments; ++i) {
            const Segment& segment = batch.segments[sequence.first_segment + i];
            for (int32_t j = 0; j < sequence.num_rows; ++j) {
                const TokenRange seen = seen_from(segment, batch.positions[sequence.first_row + j], window);
                if (seen.first == seen.last) continue;
                total.seen_tokens += static_cast<double>(seen.last - seen.first);
                const auto [range, is_new] = by_page.try_emplace(batch.page_table[segment.first_page], seen);
                if (is_new) continue;
                range->second.first = std::min(range->second.first, seen.first);
                range->second.last = std::max(range->second.last, seen.last);
            }
        }
    }
    for (const auto& [page, range] : by_page) total.distinct_tokens += static_cast<double>(range.last - range.first);
    return total;
}

// The sizes of a step's tensors.
struct Sizes {
    Sizes(const ModelSpec& spec, const ExecutorOptions& options, const Batch& batch)
        : element(static_cast<double>(dtype_bytes(options.dtype))),
          kv_element(static_cast<double>(dtype_bytes(options.page_dtype()))),
          rows(static_cast<double>(batch.tokens.size())),
          output_rows(static_cast<double>(batch.output_rows.size())),
          written_rows(static_cast<double>(std::ranges::count_if(batch.slots, [](int32_t s) { return s != kNoSlot; }))),
          hidden(spec.hidden_size),
          queries(static_cast<double>(spec.num_heads) * spec.head_dim),
          keys(static_cast<double>(spec.num_kv_heads) * spec.head_dim) {}

    double element;     // bytes of an activation
    double kv_element;  // bytes of a number in a page
    double rows;
    double output_rows;
    double written_rows;  // whose keys and values are written to pages
    double hidden;
    double queries;  // elements of a row's queries
    double keys;     // elements of a row's keys, and of its values
};

// y [rows, outputs] = x [rows, inputs] W^T, where W takes so many bytes.
Traffic product(double rows, double inputs, double outputs, double bytes) {
    return {bytes, 0, 2 * rows * inputs * outputs};
}

void add_attention_input(StepTraffic& traffic, const Sizes& s, const ByPhase<double>& matrices) {
    Traffic& input = traffic[index_of(Phase::attention_input)];
    input += product(s.rows, s.hidden, s.queries + 2 * s.keys, matrices[index_of(Phase::attention_input)]);
    input += {s.rows * s.hidden * kFloatBytes,
              s.rows * s.queries * s.element + s.written_rows * 2 * s.keys * s.kv_element, 0};
}

void add_attention(StepTraffic& traffic, const Sizes& s, const ByPhase<double>& matrices, const Visible& seen) {
    const double output = s.rows * s.queries * s.element;
    traffic[index_of(Phase::attention)] +=
        {output + seen.distinct_tokens * 2 * s.keys * s.kv_element, output, 4 * s.queries * seen.seen_tokens};
    Traffic& added = traffic[index_of(Phase::attention_output)];
    added += product(s.rows, s.queries, s.hidden, matrices[index_of(Phase::attention_output)]);
    added += {output + s.rows * s.hidden * kFloatBytes, s.rows * s.hidden * kFloatBytes, 0};
}

void add_mlp(StepTraffic& traffic, const Sizes& s, const ByPhase<double>& matrices, double inner) {
    Traffic& input = traffic[index_of(Phase::mlp_input)];
    input += product(s.rows, s.hidden, 2 * inner, matrices[index_of(Phase::mlp_input)]);
    input += {s.rows * s.hidden * kFloatBytes, s.rows * inner * s.element, 0};
    Traffic& output = traffic[index_of(Phase::mlp_output)];
    output += product(s.rows, inner, s.hidden, matrices[index_of(Phase::mlp_output)]);
    output += {s.rows * (inner * s.element + s.hidden * kFloatBytes), s.rows * s.hidden * kFloatBytes, 0};
}

// The router is in mlp_input, and all of the experts in mlp_output.
void add_experts(StepTraffic& traffic, const Sizes& s, const ByPhase<double>& matrices, const ExpertSpec& experts) {
    Traffic& input = traffic[index_of(Phase::mlp_input)];
    input += product(s.rows, s.hidden, experts.count, matrices[index_of(Phase::mlp_input)]);
    input += {s.rows * s.hidden * kFloatBytes, s.rows * s.hidden * s.element, 0};
    const double share = static_cast<double>(experts.top_k) / experts.count;
    const double chosen = 1 - std::pow(1 - share, s.rows);  // of all experts
    traffic[index_of(Phase::mlp_output)] +=
        {chosen * matrices[index_of(Phase::mlp_output)] + s.rows * s.hidden * (s.element + kFloatBytes),
         s.rows * s.hidden * kFloatBytes, 2 * s.rows * experts.top_k * 3 * s.hidden * experts.intermediate_size};
}

}  // namespace

StepTraffic step_traffic(const ModelSpec& spec, const MatrixBytes& matrices, const ExecutorOptions& options,
                         const Batch& batch) {
    StepTraffic traffic{};
    const Sizes sizes(spec, options, batch);
    std::map<int32_t, Visible> by_window;
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        const auto& [bytes, has_experts] = matrices.layers[i];
        const int32_t window = spec.layers[i].window;
        add_attention_input(traffic, sizes, bytes);
        if (i + 1 == spec.layers.size() && !has_results(batch)) break;  // see forward()
        const auto [seen, is_new] = by_window.try_emplace(window);
        if (is_new) seen->second = visible(batch, window);
        add_attention(traffic, sizes, bytes, seen->second);
        if (has_experts) {
            add_experts(traffic, sizes, bytes, spec.experts);
        } else {
            add_mlp(traffic, sizes, bytes, spec.intermediate_size);
        }
    }
    if (sizes.output_rows == 0) return traffic;
    Traffic& head = traffic[index_of(Phase::head)];
    head += product(sizes.output_rows, sizes.hidden, spec.vocab_size, matrices.head);
    head += {sizes.output_rows * sizes.hidden * kFloatBytes, sizes.output_rows * spec.vocab_size * kFloatBytes, 0};
    return traffic;
}

Traffic total(const StepTraffic& traffic) {
    Traffic all;
    for (const Traffic& phase : traffic) all += phase;
    return all;
}

}  // namespace nanolith
