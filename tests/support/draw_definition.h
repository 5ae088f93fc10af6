// What a draw may give, computed in float64 from its definition (backend/batch.h), for tests of devices whose masses
// are rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "backend/batch.h"

namespace nanolith::testing {

// How far masses, as shares of all, may be from their exact values.
constexpr double kMassTolerance = 1e-5;

// The draws from one row of logits with one temperature.
class DrawDefinition {
  public:
    DrawDefinition(std::span<const float> logits, const SampleParams& params) : logits_(logits), params_(params) {
        sorted_.assign(logits.begin(), logits.end());
        std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
        if (params.top_k > 0 && static_cast<size_t>(params.top_k) < sorted_.size())
            top_k_ = sorted_[static_cast<size_t>(params.top_k) - 1];
    }

    // Whether `token` is drawn, if each of the numbers that top_p, min_p and the random number are held against may be
    // off by the tolerance.
    [[nodiscard]] bool may_draw(int32_t token) const {
        if (params_.temperature == 0)
            return token == std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
        for (const double p_error : {-kMassTolerance, 0.0, kMassTolerance}) {
            for (const double min_error : {-kMassTolerance, 0.0, kMassTolerance}) {
                if (is_drawn(token, top_p_bound(params_.top_p + p_error), params_.min_p * (1 + min_error))) return true;
            }
        }
        return false;
    }

    [[nodiscard]] double weight(float logit) const {
        const double distance = static_cast<double>(logit) - static_cast<double>(sorted_.front());
        return std::exp(distance / static_cast<double>(params_.temperature));
    }

  private:
    // The logit of the last token that top-p keeps of those that top-k keeps.
    [[nodiscard]] float top_p_bound(double top_p) const {
        if (params_.top_p >= 1) return top_k_;
        double total = 0;
        for (const float logit : sorted_) total += logit >= top_k_ ? weight(logit) : 0;
        double above = 0;
        for (const float logit : sorted_) {
            if (logit < top_k_) break;
            above += weight(logit);
            if (above >= top_p * total) return logit;
        }
        return top_k_;
    }

    [[nodiscard]] bool is_drawn(int32_t token, float bound, double min_p) const {
        const auto kept = [&](float logit) {
            const double w = weight(logit);
            return logit >= bound && w >= min_p ? w : 0;
        };
        const float drawn = logits_[static_cast<size_t>(token)];
        double total = 0;
        double before = 0;
        for (size_t i = 0; i < logits_.size(); ++i) {
            if (i == static_cast<size_t>(token)) before = total;
            total += kept(logits_[i]);
        }
        const double target = params_.uniform * total;
        const double slack = kMassTolerance * total;
        return kept(drawn) > 0 && before <= target + slack && target < before + kept(drawn) + slack;
    }

    std::span<const float> logits_;
    const SampleParams params_;
    std::vector<float> sorted_;  // the highest first
    float top_k_ = -std::numeric_limits<float>::infinity();
};

}  // namespace nanolith::testing
