// What a draw may give, computed in float64 from its definition (backend/batch.h) with sorted lists of probabilities,
// for tests of devices whose masses are rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "backend/batch.h"

namespace nanolith::testing {

// How far masses, as shares of all, may be from their exact values.
constexpr double kMassTolerance = 1e-5;

// Errors of the thresholds that filters compare with: added to them, or relative to them for min_p and xtc.
struct DrawErrors {
    double top_p = 0;
    double min_p = 0;
    double typical_p = 0;
    double xtc = 0;
    double surprise = 0;
};

// The draws from one row of logits.
class DrawDefinition {
  public:
    DrawDefinition(std::span<const float> logits, const DrawRule& rule) : params_(rule.params) {
        std::vector<float> edited(logits.begin(), logits.end());
        for (const LogitEdit& edit : rule.edits) {
            float& logit = edited[static_cast<size_t>(edit.token)];
            logit += edit.add;
            if (std::isinf(edit.add)) logit = edit.add;
            logit = logit > 0 ? logit / edit.divide : logit * edit.divide;
            logit -= edit.subtract;
        }
        logits_.assign(edited.begin(), edited.end());
        for (size_t i = 0; i < logits_.size(); ++i)
            if (!rule.mask.empty() && (rule.mask[i / 32] & (1U << (i % 32))) == 0) logits_[i] = -kInfinite;
    }
    DrawDefinition(std::span<const float> logits, const SampleParams& params)
        : DrawDefinition(logits, DrawRule{params, {}, {}}) {}

    // The probability of each token.
    [[nodiscard]] std::vector<double> probabilities(const DrawErrors& errors = {}) const {
        Kept kept;
        for (size_t i = 0; i < logits_.size(); ++i)
            if (logits_[i] > -kInfinite) kept.push_back(i);
        double temperature = 1;
        for (const Filter filter : params_.order) {
            if (filter == Filter::temperature) temperature = static_cast<double>(params_.temperature);
            const std::vector<double> p = softmax(kept, temperature);
            kept = apply(filter, kept, p, errors);
        }
        if (std::isfinite(params_.most_surprise)) {
            const std::vector<double> p = softmax(kept, temperature);
            const double best = *std::ranges::max_element(p);
            const double most = static_cast<double>(params_.most_surprise) + errors.surprise;
            keep(kept, [&](size_t i) { return -std::log2(p[i]) <= most || p[i] == best; });
        }
        std::vector<double> all(logits_.size(), 0);
        const std::vector<double> p = softmax(kept, temperature);
        for (size_t i = 0; i < kept.size(); ++i) all[kept[i]] = p[i];
        return all;
    }

    // Whether `token` is drawn, if each of the numbers that filters and the random number are held against may be off
    // by the tolerance.
    [[nodiscard]] bool may_draw(int32_t token) const {
        if (params_.temperature == 0) return token == std::ranges::max_element(logits_) - logits_.begin();
        if (is_drawn(token, {})) return true;
        constexpr double kErrors[] = {-kMassTolerance, 0.0, kMassTolerance};
        const auto errors_if = [&](bool on) { return on ? std::span(kErrors) : std::span(kErrors).subspan(1, 1); };
        for (const double top_p : errors_if(params_.top_p < 1))
            for (const double min_p : errors_if(params_.min_p > 0))
                for (const double typical_p : errors_if(params_.typical_p < 1))
                    for (const double xtc : errors_if(params_.xtc_threshold <= 0.5F))
                        for (const double surprise : errors_if(std::isfinite(params_.most_surprise)))
                            if (is_drawn(token, {top_p, min_p, typical_p, xtc, surprise})) return true;
        return false;
    }

  private:
    using Kept = std::vector<size_t>;  // tokens, ascending
    static constexpr double kInfinite = std::numeric_limits<double>::infinity();

    template <typename IsKept>
    static void keep(Kept& kept, const IsKept& is_kept) {
        Kept left;
        for (size_t i = 0; i < kept.size(); ++i)
            if (is_kept(i)) left.push_back(kept[i]);
        kept = left;
    }

    [[nodiscard]] std::vector<double> softmax(const Kept& kept, double temperature) const {
        double highest = -kInfinite;
        for (const size_t token : kept) highest = std::max(highest, logits_[token]);
        std::vector<double> p;
        double total = 0;
        for (const size_t token : kept) {
            p.push_back(std::exp((logits_[token] - highest) / temperature));
            total += p.back();
        }
        for (double& each : p) each /= total;
        return p;
    }

    // The key of the last token that is needed, in ascending order of keys, for a share of at least `share`.
    static double last_key(const std::vector<double>& keys, const std::vector<double>& p, double share) {
        std::vector<size_t> order(keys.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::stable_sort(order, {}, [&](size_t i) { return keys[i]; });
        double sum = 0;
        for (const size_t i : order) {
            sum += p[i];
            if (sum >= share) return keys[i];
        }
        return kInfinite;
    }

    [[nodiscard]] Kept apply(Filter filter, Kept kept, const std::vector<double>& p, const DrawErrors& errors) const {
        std::vector<double> keys;
        const auto nearest = [&](double share) {
            const double bound = last_key(keys, p, share);
            keep(kept, [&](size_t i) { return keys[i] <= bound; });
        };
        switch (filter) {
            case Filter::temperature:
                break;
            case Filter::top_k: {
                if (params_.top_k == 0 || static_cast<size_t>(params_.top_k) >= kept.size()) break;
                for (const size_t token : kept) keys.push_back(-logits_[token]);
                std::vector<double> sorted = keys;
                std::ranges::sort(sorted);
                const double bound = sorted[static_cast<size_t>(params_.top_k) - 1];
                keep(kept, [&](size_t i) { return keys[i] <= bound; });
                break;
            }
            case Filter::top_p:
                if (params_.top_p >= 1) break;
                for (const size_t token : kept) keys.push_back(-logits_[token]);
                nearest(static_cast<double>(params_.top_p) + errors.top_p);
                break;
            case Filter::typical_p: {
                if (params_.typical_p >= 1) break;
                double entropy = 0;
                for (const double each : p) entropy -= each > 0 ? each * std::log(each) : 0;
                for (const double each : p) keys.push_back(std::fabs(-std::log(each) - entropy));
                nearest(static_cast<double>(params_.typical_p) + errors.typical_p);
                break;
            }
            case Filter::min_p: {
                if (params_.min_p <= 0) break;
                const double bound =
                    static_cast<double>(params_.min_p) * (1 + errors.min_p) * *std::ranges::max_element(p);
                keep(kept, [&](size_t i) { return p[i] >= bound; });
                break;
            }
            case Filter::xtc: {
                if (params_.xtc_threshold > 0.5F) break;
                const double threshold = static_cast<double>(params_.xtc_threshold) * (1 + errors.xtc);
                Kept choices = kept;
                keep(choices, [&](size_t i) { return p[i] >= threshold; });
                if (choices.size() < 2) break;
                double least = kInfinite;
                for (const size_t token : choices) least = std::min(least, logits_[token]);
                std::erase_if(kept, [&](size_t token) { return logits_[token] > least; });
                break;
            }
        }
        return kept;
    }

    [[nodiscard]] bool is_drawn(int32_t token, const DrawErrors& errors) const {
        const std::vector<double> p = probabilities(errors);
        double before = 0;
        for (int32_t i = 0; i < token; ++i) before += p[static_cast<size_t>(i)];
        const double drawn = p[static_cast<size_t>(token)];
        return drawn > 0 && before <= params_.uniform + kMassTolerance &&
               params_.uniform < before + drawn + kMassTolerance;
    }

    const SampleParams params_;
    std::vector<double> logits_;
};

}  // namespace nanolith::testing
