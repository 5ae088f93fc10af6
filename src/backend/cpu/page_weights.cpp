#include "backend/cpu/page_weights.h"

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
        int64_t pages = 0;
        for (int32_t i = 0; i < of.sequence.num_segments; ++i) {
            first_page_.push_back(pages);
            pages += pages_for(segment(i).length, page_size());
        }
        lse_.resize(static_cast<size_t>(pages * num_queries_));
        num_pages_ = pages;
    }

    void run(ThreadPool& pool, std::span<double> weights) {
        const int64_t heads = of_.shape.pool.num_kv_heads;
        const int64_t cost = cost_of_flops(2 * dim_ * num_pages_ * page_size() * num_queries_);
        pool.run(of_.sequence.num_segments * heads, cost, [&](int64_t i, int32_t) {
            const auto score = [&]<typename P>(P) { score_segment<P>(static_cast<int32_t>(i / heads), i % heads); };
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
        std::vector<float> totals(static_cast<size_t>(num_queries_));
        const int64_t numbers = cost_of_flops(8 * num_pages_ * num_queries_);
        pool.run(num_queries_, numbers, [&](int64_t query, int32_t) {
            totals[query] = log_sum_exp(lse_.data() + query, num_pages_, num_queries_);
        });
        pool.run(num_pages_, numbers, [&](int64_t page, int32_t) {
            double sum = 0;
            for (int64_t query = 0; query < num_queries_; ++query) {
                const float lse = lse_[page * num_queries_ + query];
                if (lse > -kInfinity) sum += std::exp(lse - totals[query]);
            }
            weights[page] += sum;
        });
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

    template <typename P>
    void score_segment(int32_t index, int64_t kv_head) {
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
            float* const lse =
                lse_.data() + (first_page_[index] + first / page_size()) * num_queries_ + kv_head * queries_of_head_;
            for (int64_t query = 0; query < queries_of_head_; ++query) {
                float* const of_query = scores.data() + query * page_size();
                if (of_.rule.softcap > 0) softcap(of_query, count, of_.rule.softcap);
                const int64_t visible = int64_t{position(query / group_)} - segment.base + 1 - first;
                lse[query] = log_sum_exp(of_query, std::clamp<int64_t>(visible, 0, count), 1);
            }
        }
    }

    const ProbedAttention& of_;
    const int64_t dim_;
    const int64_t group_;
    const int64_t queries_of_head_;
    const int64_t num_queries_;
    int64_t num_pages_ = 0;
    std::vector<int64_t> first_page_;  // of each segment
    std::vector<float> lse_;           // [pages, KV heads, rows, group]
};

}  // namespace

void add_page_weights(const ProbedAttention& of, ThreadPool& pool, std::span<double> weights) {
    Prober(of).run(pool, weights);
}

}  // namespace nanolith::cpu
