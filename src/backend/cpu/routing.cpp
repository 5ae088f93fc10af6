#include "backend/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nanolith::cpu {

void Routing::choose(const ExpertSpec& experts, const float* logits, int64_t rows) {
    const auto count = static_cast<size_t>(experts.count);
    const auto top_k = static_cast<std::ptrdiff_t>(experts.top_k);
    routes_.resize(count);
    for (std::vector<Route>& routes : routes_) routes.clear();
    order_.resize(count);
    for (int64_t row = 0; row < rows; ++row) {
        const float* const scores = logits + row * experts.count;
        std::iota(order_.begin(), order_.end(), 0);
        std::partial_sort(order_.begin(), order_.begin() + top_k, order_.end(), [scores](int32_t a, int32_t b) {
            return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
        });
        const float highest = scores[order_.front()];
        const auto mass = [&](int32_t expert) { return std::exp(scores[expert] - highest); };
        const auto last = experts.normalized ? order_.begin() + top_k : order_.end();
        float total = 0;
        for (auto expert = order_.begin(); expert != last; ++expert) total += mass(*expert);
        for (auto expert = order_.begin(); expert != order_.begin() + top_k; ++expert)
            routes_[*expert].push_back({row, mass(*expert) / total});
    }
}

}  // namespace nanolith::cpu
