#include "ops/paged_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nanolith::test {

std::string AttentionKind::name() const {
    return std::to_string(num_heads) + ":" + std::to_string(num_kv_heads) + " heads of " + std::to_string(head_dim) +
           ", pages of " + std::to_string(page_size) + ", " + format_name(dtype) + " over " + format_name(kv_dtype) +
           (causal ? "" : ", not causal") + (rotated ? ", rotated" : "") + ", window " + std::to_string(window) +
           ", softcap " + std::to_string(softcap);
}

AttentionOptions AttentionKind::options() const {
    AttentionOptions options = make_options(num_heads, num_kv_heads, head_dim, page_size, static_cast<int32_t>(dtype),
                                            static_cast<int32_t>(kv_dtype));
    NL_EXPECT(nl_attention_options_set_scale(options.get(), static_cast<float>(scale)));
    NL_EXPECT(nl_attention_options_set_causal(options.get(), causal ? 1 : 0));
    NL_EXPECT(nl_attention_options_set_window(options.get(), window));
    NL_EXPECT(nl_attention_options_set_softcap(options.get(), static_cast<float>(softcap)));
    NL_EXPECT(nl_attention_options_set_kv_scales(options.get(), k_scale, v_scale));
    if (rotated) {
        const std::vector<float> frequencies = rope_frequencies(head_dim);
        NL_EXPECT(nl_attention_options_set_rope(options.get(), frequencies.data(), frequencies.size(), kMaxPosition));
    }
    return options;
}

std::vector<float> rope_frequencies(int32_t head_dim) {
    std::vector<float> frequencies;
    for (int32_t i = 0; i < head_dim / 2; ++i)
        frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / head_dim)));
    return frequencies;
}

void rotate_head(double* head, const std::vector<float>& frequencies, int64_t position) {
    const size_t half = frequencies.size();
    for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
        const double a = head[i];
        const double b = head[i + half];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + half] = a * std::sin(angle) + b * std::cos(angle);
    }
}

double reference_attention(const AttentionKind& kind, const std::vector<double>& query, int32_t kv_head,
                           int64_t position, const std::vector<ChunkUse>& uses, const std::vector<TokenSpan>& spans,
                           double* out) {
    const auto dim = static_cast<size_t>(kind.head_dim);
    const double scale = kind.scale != 0 ? kind.scale : 1 / std::sqrt(static_cast<double>(dim));
    std::vector<double> scores;
    std::vector<const double*> values;
    for (const ChunkUse& use : uses) {
        std::vector<double> turned(query);
        if (kind.rotated) rotate_head(turned.data(), rope_frequencies(kind.head_dim), position - use.base);
        for (int32_t t = 0; t < use.length; ++t) {
            const int64_t key_position = int64_t{use.base} + t;
            if (kind.causal && key_position > position) continue;
            if (kind.window > 0 && key_position <= position - kind.window) continue;
            const size_t at = static_cast<size_t>(t * kind.num_kv_heads + kv_head) * dim;
            const double* key = spans[use.chunk].keys.data() + at;
            double score = scale * std::inner_product(key, key + dim, turned.data(), 0.0);
            if (kind.softcap > 0) score = kind.softcap * std::tanh(score / kind.softcap);
            scores.push_back(score);
            values.push_back(spans[use.chunk].values.data() + at);
        }
    }
    std::fill_n(out, dim, 0.0);
    if (scores.empty()) return -std::numeric_limits<double>::infinity();
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (const double score : scores) total += std::exp(score - highest);
    for (size_t t = 0; t < scores.size(); ++t) {
        const double weight = std::exp(scores[t] - highest) / total;
        for (size_t i = 0; i < dim; ++i) out[i] += weight * values[t][i];
    }
    return highest + std::log(total);
}

TokenSpan PagedCase::make_span(int32_t length) {
    TokenSpan span;
    span.length = length;
    const size_t elements =
        static_cast<size_t>(length) * static_cast<size_t>(kind_.num_kv_heads) * static_cast<size_t>(kind_.head_dim);
    for (size_t i = 0; i < elements; ++i) {
        span.keys.push_back(round_to(kind_.kv_dtype, random_.uniform(-1, 1) / static_cast<double>(kind_.k_scale)) *
                            static_cast<double>(kind_.k_scale));
        span.values.push_back(round_to(kind_.kv_dtype, random_.uniform(-1, 1) / static_cast<double>(kind_.v_scale)) *
                              static_cast<double>(kind_.v_scale));
    }
    return span;
}

size_t PagedCase::add_chunk(int32_t length) {
    spans_.push_back(make_span(length));
    return spans_.size() - 1;
}

size_t PagedCase::add_chunk_with_keys(const std::vector<std::vector<double>>& keys) {
    TokenSpan span = make_span(static_cast<int32_t>(keys.size()));
    auto to = span.keys.begin();
    for (const std::vector<double>& key : keys) {
        for (int32_t head = 0; head < kind_.num_kv_heads; ++head) {
            for (const double element : key) *to++ = round_to(kind_.kv_dtype, element);
        }
    }
    spans_.push_back(std::move(span));
    return spans_.size() - 1;
}

void PagedCase::spoil(std::vector<double>& elements, int32_t token) const {
    const int64_t size = int64_t{kind_.num_kv_heads} * kind_.head_dim;
    std::fill_n(elements.begin() + token * size, size, std::nan(""));
}

void PagedCase::add_sequence(int32_t num_rows, int32_t first_position, std::vector<ChunkUse> chunks) {
    sequences_.push_back({num_rows, first_position, std::move(chunks)});
}

void PagedCase::add_simple_sequence(int32_t num_rows, int32_t length) {
    const size_t chunk = add_chunk(length);
    add_sequence(num_rows, std::max(length - num_rows, 0), {{chunk, length, 0}});
}

// Writes the span's tokens to their pages.
void PagedCase::place(const TokenSpan& span) {
    const auto dim = static_cast<size_t>(kind_.head_dim);
    const auto kv_heads = static_cast<size_t>(kind_.num_kv_heads);
    const auto page_size = static_cast<size_t>(kind_.page_size);
    for (size_t t = 0; t < static_cast<size_t>(span.length); ++t) {
        const auto page = static_cast<size_t>(page_table_[static_cast<size_t>(span.first_entry) + t / page_size]);
        for (size_t head = 0; head < kv_heads; ++head) {
            const size_t k_at = ((page * 2 * kv_heads + head) * page_size + t % page_size) * dim;
            const size_t v_at = k_at + kv_heads * page_size * dim;
            for (size_t i = 0; i < dim; ++i) {
                const size_t from = (t * kv_heads + head) * dim + i;
                put(kind_.kv_dtype, span.keys[from] / static_cast<double>(kind_.k_scale), pool_, k_at + i);
                put(kind_.kv_dtype, span.values[from] / static_cast<double>(kind_.v_scale), pool_, v_at + i);
            }
        }
    }
}

void PagedCase::finish() {
    for (TokenSpan& span : spans_) {
        span.first_entry = static_cast<int32_t>(page_table_.size());
        const int32_t pages = (span.length + kind_.page_size - 1) / kind_.page_size;
        page_table_.resize(page_table_.size() + static_cast<size_t>(pages));
    }
    num_pages_ = static_cast<int32_t>(page_table_.size()) * 2 + 3;
    std::vector<int32_t> pages(num_pages_);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random_.engine());
    std::copy_n(pages.begin(), page_table_.size(), page_table_.begin());

    const size_t page_elements = 2 * static_cast<size_t>(kind_.num_kv_heads) * static_cast<size_t>(kind_.page_size) *
                                 static_cast<size_t>(kind_.head_dim);
    pool_ = poison(kind_.kv_dtype, page_elements * static_cast<size_t>(num_pages_));
    for (const TokenSpan& span : spans_) place(span);

    for (const CaseSequence& sequence : sequences_) {
        sequence_rows_.push_back(sequence.num_rows);
        sequence_segments_.push_back(static_cast<int32_t>(sequence.chunks.size()));
        for (const ChunkUse& use : sequence.chunks) {
            first_entries_.push_back(spans_[use.chunk].first_entry);
            lengths_.push_back(use.length);
            bases_.push_back(use.base);
        }
        for (int32_t row = 0; row < sequence.num_rows; ++row) positions_.push_back(sequence.first_position + row);
    }
    queries_ = poison(kind_.dtype, tensor_elements());
    for (int64_t row = 0; row < num_rows(); ++row) {
        for (int64_t i = 0; i < int64_t{kind_.num_heads} * kind_.head_dim; ++i) {
            const double element =
                fixed_query_.empty() ? random_.uniform(-query_bound_, query_bound_) : fixed_query_[i % kind_.head_dim];
            put(kind_.dtype, round_to(kind_.dtype, element), queries_, static_cast<size_t>(row * row_stride() + i));
        }
    }
}

nl_status PagedCase::set(nl_attention_plan* plan) const {
    const nl_attention_step step{.struct_size = sizeof(step),
                                 .num_pages = num_pages_,
                                 .page_table = page_table_.data(),
                                 .num_entries = page_table_.size(),
                                 .segment_first_entries = first_entries_.data(),
                                 .segment_lengths = lengths_.data(),
                                 .segment_bases = bases_.data(),
                                 .num_segments = lengths_.size(),
                                 .sequence_rows = sequence_rows_.data(),
                                 .sequence_segments = sequence_segments_.data(),
                                 .num_sequences = sequence_rows_.size(),
                                 .positions = positions_.data(),
                                 .num_rows = positions_.size()};
    return nl_attention_plan_set(plan, &step);
}

void PagedCase::compare_head(int64_t row, int32_t head, const CaseSequence& sequence, const std::vector<std::byte>& out,
                             const std::vector<float>& lse) const {
    const auto dim = static_cast<size_t>(kind_.head_dim);
    const auto at = static_cast<size_t>(row * row_stride()) + static_cast<size_t>(head) * dim;
    std::vector<double> query(dim);
    std::vector<double> expected(dim);
    for (size_t i = 0; i < dim; ++i) query[i] = get(kind_.dtype, queries_, at + i);
    const double expected_lse = reference_attention(kind_, query, head / (kind_.num_heads / kind_.num_kv_heads),
                                                    positions_[row], sequence.chunks, spans_, expected.data());
    double worst = 0;
    for (size_t i = 0; i < dim; ++i) {
        const double found = get(kind_.dtype, out, at + i);
        const double difference = std::isnan(expected[i]) && std::isnan(found) ? 0 : std::fabs(found - expected[i]);
        worst = difference <= worst ? worst : difference;  // NaN too
    }
    ASSERT_LE(worst, tolerance(kind_.dtype)) << "row " << row << " head " << head;
    if (lse.empty()) return;
    const auto found = static_cast<double>(lse[row * kind_.num_heads + head]);
    if (std::isnan(expected_lse)) {
        ASSERT_TRUE(std::isnan(found)) << "row " << row << " head " << head << " has " << found;
    } else if (std::isinf(expected_lse)) {
        ASSERT_EQ(found, expected_lse) << "row " << row << " head " << head;
    } else {
        ASSERT_NEAR(found, expected_lse, 4 * tolerance(kind_.dtype) * std::max(1.0, std::fabs(expected_lse) / 16))
            << "row " << row << " head " << head;
    }
}

void PagedCase::compare(const std::vector<std::byte>& out, const std::vector<float>& lse) const {
    int64_t row = 0;
    for (const CaseSequence& sequence : sequences_) {
        for (int32_t i = 0; i < sequence.num_rows; ++i, ++row) {
            for (int32_t head = 0; head < kind_.num_heads; ++head) {
                compare_head(row, head, sequence, out, lse);
                if (::testing::Test::HasFatalFailure()) return;
            }
            for (int64_t gap = int64_t{kind_.num_heads} * kind_.head_dim; gap < row_stride(); ++gap)
                ASSERT_TRUE(std::isnan(get(kind_.dtype, out, static_cast<size_t>(row * row_stride() + gap))))
                    << "written beside row " << row;
        }
    }
}

void PagedCase::expect_right(nl_ops* ops, const std::string& device) {
    SCOPED_TRACE(kind_.name() + ", seed " + std::to_string(random_.seed()));
    const AttentionOptions options = kind_.options();
    const AttentionPlan plan = make_plan(ops, options.get(), std::max(num_rows(), max_rows_), num_sequences(),
                                         std::max<int64_t>(num_segments(), 1), std::max<int64_t>(num_entries(), 1));
    ASSERT_NE(plan, nullptr);
    NL_CHECK(set(plan.get()));
    const Buffer q(device, queries_);
    const Buffer pages(device, pool_);
    std::vector<std::byte> first;
    for (int run = 0; run < 2; ++run) {
        const Buffer out(device, poison(kind_.dtype, tensor_elements()));
        const Buffer lse(device, poison(Format::f32, static_cast<size_t>(num_rows() * kind_.num_heads)));
        NL_CHECK(attention_run(plan.get(), {q.data(), row_stride(), head_stride()}, pages.data(),
                               {out.data(), row_stride(), head_stride()}, run == 0 ? lse.as<float>() : nullptr));
        if (run == 0) {
            first = out.download();
            compare(first, lse.values<float>());
        } else {
            ASSERT_EQ(out.download(), first) << "the same plan gave other bits";
        }
    }
}

}  // namespace nanolith::test
