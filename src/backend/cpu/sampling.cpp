#include "backend/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace nanolith::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The lowest id of the highest logit; kNoToken where there is none, or a NaN.
int32_t greedy(std::span<const float> logits) {
    int32_t best = kNoToken;
    float highest = kLowest;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (std::isnan(logits[i])) return kNoToken;
        if (logits[i] > highest) {
            highest = logits[i];
            best = static_cast<int32_t>(i);
        }
    }
    return best;
}

// The logit of rank k (1: the highest), or minus infinity where all are kept.
float top_k_threshold(std::span<const float> logits, int32_t k, std::vector<float>& copy) {
    if (k <= 0 || static_cast<size_t>(k) >= logits.size()) return kLowest;
    copy.assign(logits.begin(), logits.end());
    const auto rank = copy.begin() + (k - 1);
    std::nth_element(copy.begin(), rank, copy.end(), std::greater<>());
    return *rank;
}

// The highest logit at which the tokens from there up hold at least the share p of all the mass in `logits`.
// Quickselect by mass: each round splits what is left around a pivot into above, equal and below, and goes on in the
// part in which the running mass crosses the target.
template <typename Weight>
float top_p_threshold(std::vector<float>& logits, double p, double total, const Weight& weight) {
    double target = p * total;
    auto first = logits.begin();
    auto last = logits.end();
    float threshold = kLowest;
    while (first != last) {
        const float a = *first;
        const float b = *(first + (last - first) / 2);
        const float c = *(last - 1);
        const float pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));  // the median of three
        const auto equal = std::partition(first, last, [pivot](float x) { return x > pivot; });
        const auto below = std::partition(equal, last, [pivot](float x) { return x == pivot; });
        double above_mass = 0;
        for (auto it = first; it != equal; ++it) above_mass += weight(*it);
        if (first != equal && above_mass >= target) {
            last = equal;
            continue;
        }
        threshold = pivot;
        const double equal_mass = static_cast<double>(below - equal) * weight(pivot);
        if (above_mass + equal_mass >= target) break;
        target -= above_mass + equal_mass;
        first = below;
    }
    return threshold;
}

}  // namespace

int32_t sample(std::span<const float> logits, const SampleParams& params, SampleScratch& scratch) {
    const int32_t best = greedy(logits);
    if (params.temperature <= 0 || best == kNoToken) return best;
    const float highest = logits[best];

    // Relative to the best, so nothing overflows; a best of plus infinity leaves its equals alone.
    const double scale = 1.0 / params.temperature;
    const auto weight = [&](float logit) {
        if (logit == highest) return 1.0;
        return std::exp((static_cast<double>(logit) - static_cast<double>(highest)) * scale);
    };

    float threshold = top_k_threshold(logits, params.top_k, scratch.logits);
    if (params.top_p < 1) {
        scratch.logits.clear();
        double total = 0;
        for (const float logit : logits) {
            if (logit < threshold || logit == kLowest) continue;
            scratch.logits.push_back(logit);
            total += weight(logit);
        }
        threshold = top_p_threshold(scratch.logits, static_cast<double>(params.top_p), total, weight);
    }

    scratch.weights.resize(logits.size());
    double total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        const double w = logits[i] >= threshold ? weight(logits[i]) : 0.0;
        scratch.weights[i] = w >= static_cast<double>(params.min_p) ? w : 0.0;
        total += scratch.weights[i];
    }
    const double target = params.uniform * total;
    double running = 0;
    int32_t last = best;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (scratch.weights[i] <= 0) continue;
        running += scratch.weights[i];
        last = static_cast<int32_t>(i);
        if (running > target) break;
    }
    return last;
}

}  // namespace nanolith::cpu
