#include "backend/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace nanolith::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

float edited(float logit, const LogitEdit& edit) {
    if (std::isnan(logit)) return logit;
    if (edit.add == kLowest) return kLowest;  // plus infinity is banned too
    const float biased = logit + edit.add;
    return (biased > 0 ? biased / edit.divide : biased * edit.divide) - edit.subtract;
}

// The row's logits after its edits and its mask.
std::span<const float> edit_row(std::span<const float> logits, const DrawRule& rule, std::vector<float>& copy) {
    if (rule.edits.empty() && rule.mask.empty()) return logits;
    copy.assign(logits.begin(), logits.end());
    for (const LogitEdit& edit : rule.edits) copy[edit.token] = edited(copy[edit.token], edit);
    if (!rule.mask.empty()) {
        for (size_t i = 0; i < copy.size(); ++i) {
            const bool allowed = ((rule.mask[i / 32] >> (i % 32)) & 1U) != 0;
            if (!allowed && !std::isnan(copy[i])) copy[i] = kLowest;
        }
    }
    return copy;
}

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

// The highest key at which the logits with keys from there up hold the mass `target`. Quickselect by mass: each round
// splits what is left around a pivot into above, equal and below, and goes on in the part in which the running mass
// crosses the target.
template <typename Key, typename Weight>
double threshold_by_mass(std::vector<float>& logits, double target, const Key& key, const Weight& weight) {
    auto first = logits.begin();
    auto last = logits.end();
    double threshold = -std::numeric_limits<double>::infinity();
    const auto mass = [&](auto from, auto to) {
        double sum = 0;
        for (auto it = from; it != to; ++it) sum += weight(*it);
        return sum;
    };
    while (first != last) {
        const double a = key(*first);
        const double b = key(*(first + (last - first) / 2));
        const double c = key(*(last - 1));
        const double pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));  // the median of three
        const auto equal = std::partition(first, last, [&](float x) { return key(x) > pivot; });
        const auto below = std::partition(equal, last, [&](float x) { return key(x) == pivot; });
        const double above_mass = mass(first, equal);
        if (first != equal && above_mass >= target) {
            last = equal;
            continue;
        }
        threshold = pivot;
        const double equal_mass = mass(equal, below);
        if (above_mass + equal_mass >= target) break;
        target -= above_mass + equal_mass;
        first = below;
    }
    return threshold;
}

// What is left to draw from: the tokens whose logits are from least() to highest(). Every filter keeps such an interval
// of those before it, and at least one token.
class Kept {
  public:
    // `scratch` gets the logits that are kept, once a filter needs them.
    Kept(std::span<const float> logits, float highest, std::vector<float>& scratch)
        : logits_(logits), kept_(scratch), highest_(highest) {}

    [[nodiscard]] double weight(float logit) const {
        if (logit == highest_) return 1.0;  // also plus infinity
        return std::exp(-distance(logit));
    }
    // Whether it is kept; for logits that are no NaN.
    [[nodiscard]] bool contains(float logit) const { return logit >= least_ && logit <= highest_ && logit > kLowest; }

    void apply(Filter filter, const SampleParams& params) {
        switch (filter) {
            case Filter::temperature:
                scale_ = 1.0 / static_cast<double>(params.temperature);
                return;
            case Filter::top_k:
                return keep_top_k(params.top_k);
            case Filter::typical_p:
                return keep_typical(static_cast<double>(params.typical_p));
            case Filter::top_p:
                return keep_top_p(static_cast<double>(params.top_p));
            case Filter::min_p:
                return keep_min_p(static_cast<double>(params.min_p));
            case Filter::xtc:
                return drop_top_choices(static_cast<double>(params.xtc_threshold));
        }
    }

    // Truncation of Mirostat 2 (Basu and others: Mirostat, 2021): only what surprises by so many bits at most.
    void keep_least_surprising(float bits) {
        if (std::isinf(bits)) return;
        collect();
        const double log_total = std::log(total());
        const double most = static_cast<double>(bits) * std::numbers::ln2;
        keep([&](float logit) { return distance(logit) + log_total <= most; });
    }

  private:
    // How much less than the best one, in nats at the temperature. 0 for the best, even where it is infinite.
    [[nodiscard]] double distance(float logit) const {
        return logit == highest_ ? 0 : (static_cast<double>(highest_) - static_cast<double>(logit)) * scale_;
    }

    void collect() {
        if (!kept_.empty()) return;
        for (const float logit : logits_)
            if (contains(logit)) kept_.push_back(logit);
    }

    [[nodiscard]] double total() const {
        double sum = 0;
        for (const float logit : kept_) sum += weight(logit);
        return sum;
    }

    // Keeps what `is_kept` says, which is an interval, and the best where it says nothing.
    template <typename IsKept>
    void keep(const IsKept& is_kept) {
        float least = std::numeric_limits<float>::infinity();
        float highest = kLowest;
        for (const float logit : kept_) {
            if (!is_kept(logit)) continue;
            least = std::min(least, logit);
            highest = std::max(highest, logit);
        }
        if (highest == kLowest) least = highest = highest_;
        least_ = least;
        highest_ = highest;
        std::erase_if(kept_, [this](float logit) { return !contains(logit); });
    }

    void keep_top_k(int32_t k) {
        if (k <= 0 || static_cast<size_t>(k) >= logits_.size()) return;
        collect();
        if (static_cast<size_t>(k) >= kept_.size()) return;
        const auto rank = kept_.begin() + (k - 1);
        std::nth_element(kept_.begin(), rank, kept_.end(), std::greater<>());
        const float bound = *rank;
        keep([bound](float logit) { return logit >= bound; });
    }

    void keep_top_p(double p) {
        if (p >= 1) return;
        collect();
        const double bound = threshold_by_mass(
            kept_, p * total(), [](float logit) { return static_cast<double>(logit); },
            [this](float logit) { return weight(logit); });
        keep([bound](float logit) { return static_cast<double>(logit) >= bound; });
    }

    // Locally typical sampling (Meister and others, 2022).
    void keep_typical(double p) {
        if (p >= 1) return;
        collect();
        const double all = total();
        const double log_total = std::log(all);
        double entropy = log_total;
        for (const float logit : kept_) {
            const double w = weight(logit);
            if (w > 0) entropy += w / all * distance(logit);
        }
        const auto key = [&](float logit) { return -std::fabs(distance(logit) + log_total - entropy); };
        const double bound = threshold_by_mass(kept_, p * all, key, [this](float logit) { return weight(logit); });
        keep([&](float logit) { return key(logit) >= bound; });
    }

    void keep_min_p(double p) {
        if (p <= 0) return;
        collect();
        keep([&](float logit) { return weight(logit) >= p; });
    }

    // "Exclude top choices", as llama.cpp has it.
    void drop_top_choices(double threshold) {
        if (threshold > 0.5) return;
        collect();
        const double bound = threshold * total();
        float least_choice = std::numeric_limits<float>::infinity();
        int choices = 0;
        for (const float logit : kept_) {
            if (weight(logit) < bound) continue;
            ++choices;
            least_choice = std::min(least_choice, logit);
        }
        if (choices < 2) return;
        keep([least_choice](float logit) { return logit <= least_choice; });
    }

    std::span<const float> logits_;
    std::vector<float>& kept_;
    float least_ = kLowest;
    float highest_;
    double scale_ = 1;
};

}  // namespace

Drawn sample(std::span<const float> row, const DrawRule& rule, SampleScratch& scratch) {
    const SampleParams& params = rule.params;
    const std::span<const float> logits = edit_row(row, rule, scratch.edited);
    const int32_t best = greedy(logits);
    if (params.temperature <= 0 || best == kNoToken) return {best, 0};
    scratch.logits.clear();
    Kept kept(logits, logits[best], scratch.logits);
    for (const Filter filter : params.order) kept.apply(filter, params);
    kept.keep_least_surprising(params.most_surprise);

    scratch.weights.resize(logits.size());
    double total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        scratch.weights[i] = kept.contains(logits[i]) ? kept.weight(logits[i]) : 0.0;
        total += scratch.weights[i];
    }
    const double target = params.uniform * total;
    double running = 0;
    int32_t drawn = best;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (scratch.weights[i] <= 0) continue;
        running += scratch.weights[i];
        drawn = static_cast<int32_t>(i);
        if (running > target) break;
    }
    if (std::isinf(params.most_surprise)) return {drawn, 0};
    return {drawn, static_cast<float>(std::log2(total) - std::log2(scratch.weights[drawn]))};
}

void find_logprobs(std::span<const float> logits, const LogprobQuery& query, std::span<TokenLogprob> found) {
    const float highest = *std::ranges::max_element(logits);
    const auto distance = [highest](float logit) {
        return logit == highest ? 0 : static_cast<double>(logit) - static_cast<double>(highest);
    };
    double total = 0;
    for (const float logit : logits) total += std::exp(distance(logit));
    const double log_total = std::log(total);
    const auto logprob = [&](float logit) { return static_cast<float>(distance(logit) - log_total); };
    found[0] = {query.token, logprob(logits[query.token])};
    // Insertion into the few best, which most tokens fail at the first comparison.
    const auto best = found.subspan(1, static_cast<size_t>(query.top));
    size_t count = 0;
    for (size_t i = 0; i < logits.size() && !best.empty(); ++i) {
        if (count == best.size() && !(logits[i] > logits[best[count - 1].token])) continue;
        size_t at = count < best.size() ? count++ : count - 1;
        for (; at > 0 && logits[i] > logits[best[at - 1].token]; --at) best[at] = best[at - 1];
        best[at] = {static_cast<int32_t>(i), 0};
    }
    for (TokenLogprob& token : best) token.logprob = logprob(logits[token.token]);
}

}  // namespace nanolith::cpu
