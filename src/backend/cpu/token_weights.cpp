#include "backend/cpu/token_weights.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/attention_tile.h"
#include "backend/cpu/dot_products.h"
#include "backend/cpu/rows.h"
#include "backend/page_size.h"

namespace nanolith::cpu {
namespace {

// Keys of a page as they are multiplied.
const float* widen(const float* keys, int64_t, std::vector<float>&) {
    return keys;
}
const BFloat16* widen(const BFloat16* keys, int64_t, std::vector<float>&) {
    return keys;
}
template <typename P>
const float* widen(const P* keys, int64_t size, std::vector<float>& widened) {
    widened.resize(static_cast<size_t>(size));
    convert(keys, size, widened.data());
    return widened.data();
}

// log(sum of exp(x)); -infinity of none.
float log_sum_exp(const float* x, int64_t count, int64_t stride) {
    float highest = -kInfinity;
    for (int64_t i = 0; i < count; ++i) highest = std::fmax(highest, x[i * stride]);
    if (highest == -kInfinity) return highest;
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i * stride] - highest);
    return highest + std::log(sum);
}

class Prober {
  public:
    explicit Prober(const ProbedAttention& of)
        : of_(of),
          dim_(of.shape.pool.head_dim),
          group_(of.shape.group()),
          queries_of_head_(int64_t{of.sequence.num_rows} * group_),
          num_queries_(queries_of_head_ * of.shape.pool.num_kv_heads) {
        for (int32_t i = 0; i < of.sequence.num_segments; ++i) {
            first_page_.push_back(num_pages_);
            first_token_.push_back(num_tokens_);
            num_pages_ += pages_for(segment(i).length, page_size());
            num_tokens_ += segment(i).length;
        }
        lse_.resize(static_cast<size_t>(num_pages_ * num_queries_));
        totals_.resize(static_cast<size_t>(num_queries_));
        shares_.resize(static_cast<size_t>(num_tokens_ * of.shape.pool.num_kv_heads));
    }

    void run(ThreadPool& pool, std::span<double> weights) {
        for_segments_and_heads(pool, [this](const PageScores& of) { sum_page(of); });
        pool.run(num_queries_, cost_of_flops(8 * num_pages_ * num_queries_), [&](int64_t query, int32_t) {
            totals_[query] = log_sum_exp(lse_.data() + query, num_pages_, num_queries_);
        });
        for_segments_and_heads(pool, [this](const PageScores& of) { share_page(of); });
        for (int64_t head = 0; head < of_.shape.pool.num_kv_heads; ++head)
            for (int64_t token = 0; token < num_tokens_; ++token) weights[token] += shares_[head * num_tokens_ + token];
    }

  private:
    [[nodiscard]] int32_t page_size() const { return of_.shape.pool.page_size; }
    [[nodiscard]] const Segment& segment(int32_t i) const { return of_.step.segments[of_.sequence.first_segment + i]; }
    [[nodiscard]] int32_t position(int64_t row) const { return of_.step.positions[of_.sequence.first_row + row]; }

    // The rows' queries of one KV head, times the scale, rotated for the segment, as products with keys of P take them.
    template <typename P>
    std::vector<float> load_queries(const Segment& segment, int64_t kv_head) const {
        std::vector<float> queries(static_cast<size_t>(queries_of_head_ * dim_));
        std::vector<float> rotated(static_cast<size_t>(dim_));
        std::vector<float> turn_scratch(static_cast<size_t>(dim_));
        const float scale = of_.rule.scale * of_.pages.k_scale;
        for (int64_t row = 0; row < of_.sequence.num_rows; ++row) {
            const float* turn = nullptr;
            if (of_.rule.turns != nullptr)
                turn = of_.rule.turns->turn(std::max(position(row) - segment.base, 0), turn_scratch.data());
            for (int64_t i = 0; i < group_; ++i) {
                const float* const from = static_cast<const float*>(of_.queries.data) +
                                          of_.queries.offset(of_.sequence.first_row + row, kv_head * group_ + i);
                float* const to = queries.data() + (row * group_ + i) * dim_;
                constexpr bool kSpread = std::is_same_v<P, BFloat16>;
                float* const at = kSpread ? rotated.data() : to;
                if (turn != nullptr) {
                    rotate(from, turn, dim_, scale, at);
                } else {
                    scale_row(from, scale, dim_, at);
                }
                if (kSpread) spread_pairs(at, dim_, to);
            }
        }
        return queries;
    }

    // The scores of a page's tokens with all queries of a KV head.
    struct PageScores {
        int32_t segment = 0;
        int64_t kv_head = 0;
        int32_t first = 0;              // token of the segment
        int64_t count = 0;              // tokens
        const float* scores = nullptr;  // [queries of the head, page size]
        const Prober* of = nullptr;

        [[nodiscard]] const float* of_query(int64_t query) const { return scores + query * of->page_size(); }
        // How many of the tokens the query sees.
        [[nodiscard]] int64_t visible(int64_t query) const {
            const int64_t seen = int64_t{of->position(query / of->group_)} - of->segment(segment).base + 1 - first;
            return std::clamp<int64_t>(seen, 0, count);
        }
    };

    template <typename Take>
    void for_segments_and_heads(ThreadPool& pool, const Take& take) const {
        const int64_t heads = of_.shape.pool.num_kv_heads;
        const int64_t cost = cost_of_flops(2 * dim_ * num_pages_ * page_size() * num_queries_);
        pool.run(of_.sequence.num_segments * heads, cost, [&](int64_t i, int32_t) {
            const auto score = [&]<typename P>(P) { score_pages<P>(static_cast<int32_t>(i / heads), i % heads, take); };
            switch (of_.shape.pool.dtype) {
                case DType::f32:
                    return score(float());
                case DType::f16:
                    return score(Half());
                case DType::bf16:
                    return score(BFloat16());
                case DType::f8_e4m3:
                    return score(Float8E4M3());
            }
        });
    }

    // Gives `take` each page of the segment.
    template <typename P, typename Take>
    void score_pages(int32_t index, int64_t kv_head, const Take& take) const {
        const Segment& segment = this->segment(index);
        const std::vector<float> queries = load_queries<P>(segment, kv_head);
        std::vector<float> scores(static_cast<size_t>(queries_of_head_ * page_size()));
        std::vector<float> widened;
        for (int32_t first = 0; first < segment.length; first += page_size()) {
            const int64_t count = std::min(page_size(), segment.length - first);
            const int32_t page = of_.step.page_table[segment.first_page + first / page_size()];
            const auto* const keys = widen(
                static_cast<const P*>(of_.pages.data) + of_.shape.pool.key_tile(page, kv_head), count * dim_, widened);
            using Key = std::remove_const_t<std::remove_pointer_t<decltype(keys)>>;
            dot_products(
                DotProducts<std::remove_const_t<Key>>{keys, queries.data(), dim_, scores.data(), page_size(), false},
                queries_of_head_, count);
            for (int64_t query = 0; of_.rule.softcap > 0 && query < queries_of_head_; ++query)
                softcap(scores.data() + query * page_size(), count, of_.rule.softcap);
            take(PageScores{index, kv_head, first, count, scores.data(), this});
        }
    }

    void sum_page(const PageScores& of) {
        float* const lse = lse_.data() + (first_page_[of.segment] + of.first / page_size()) * num_queries_ +
                           of.kv_head * queries_of_head_;
        for (int64_t query = 0; query < queries_of_head_; ++query)
            lse[query] = log_sum_exp(of.of_query(query), of.visible(query), 1);
    }

    void share_page(const PageScores& of) {
        double* const shares = shares_.data() + of.kv_head * num_tokens_ + first_token_[of.segment] + of.first;
        const float* const totals = totals_.data() + of.kv_head * queries_of_head_;
        for (int64_t query = 0; query < queries_of_head_; ++query) {
            const float* const scores = of.of_query(query);
            const int64_t visible = of.visible(query);
            for (int64_t token = 0; token < visible; ++token) shares[token] += std::exp(scores[token] - totals[query]);
        }
    }

    const ProbedAttention& of_;
    const int64_t dim_;
    const int64_t group_;
    const int64_t queries_of_head_;
    const int64_t num_queries_;
    int64_t num_pages_ = 0;
    int64_t num_tokens_ = 0;
    std::vector<int64_t> first_page_;   // of each segment
    std::vector<int64_t> first_token_;  // of each segment
    std::vector<float> lse_;            // [pages, KV heads, rows, group]
    std::vector<float> totals_;         // [KV heads, rows, group], over all pages
    std::vector<double> shares_;        // [KV heads, tokens], summed over the head's queries
};

}  // namespace

void add_token_weights(const ProbedAttention& of, ThreadPool& pool, std::span<double> weights) {
    Prober(of).run(pool, weights);
}

}  // namespace nanolith::cpu
