#include "engine/pacer.h"

#include <algorithm>
#include <bit>

namespace nanolith {
Pacer::Pacer(double step_ms, int32_t max_rows)
    : budget_(step_ms > 0 ? step_ms * 1000 : kStandardStep), protects_prefills_(step_ms <= 0), max_rows_(max_rows) {}

// The number of rows at which prefills have kLeastShare of the speed (rows a microsecond) that they have in the largest
// step. A step takes fixed + row * rows; so rows / (fixed + row * rows) = kLeastShare * most / (fixed + row * most).
// `fixed` is taken to be half of the time of a step without a prefill: that time is mostly the reading of weights,
// which overlaps with the products of many rows.
double Pacer::least_rows() const {
    const double fixed = conversations_ / 2;
    if (!protects_prefills_ || fixed == 0 || mean_time_ <= fixed) return 0;
    const double row = (mean_time_ - fixed) / mean_rows_;
    const double most = max_rows_;
    return kLeastShare * most * fixed / (fixed + (1 - kLeastShare) * row * most);
}

int32_t Pacer::rows_beside_conversations() const {
    if (mean_time_ == 0) return std::min(kFirstRows, max_rows_);
    const double in_time = budget_ * mean_rows_ / mean_time_;
    const double rows = std::clamp(in_time, 1.0, static_cast<double>(max_rows_));
    // Powers of two: other numbers leave some of a GPU's multiprocessors idle at the end of each kernel. (The attention
    // of an 8B model takes 1.6 times as long for 640 rows after 30,000 tokens as for 512.)
    auto whole = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(rows * kOver)));
    for (const double least = kEnough * least_rows(); whole < least && whole < max_rows_;) whole *= 2;
    return std::min(whole, max_rows_);
}

int32_t Pacer::rows_alone() const {
    if (mean_time_ == 0) return std::min(2 * kFirstRows, max_rows_);
    const double in_time = std::min(kAlone * budget_ * mean_rows_ / mean_time_, static_cast<double>(max_rows_));
    if (in_time >= max_rows_) return max_rows_;
    const auto rows = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(std::max(in_time, 1.0))));
    return std::min(std::max(rows, kLeastAlone), max_rows_);
}

void Pacer::ran(int32_t rows, int32_t prefill_rows, double microseconds) {
    last_step_ = microseconds;
    if (prefill_rows == 0) {
        conversations_ = microseconds;
        return;
    }
    const auto average = [](double& mean, double newest) {
        mean = mean == 0 ? newest : (1 - kNewest) * mean + kNewest * newest;
    };
    average(mean_rows_, rows);
    average(mean_time_, microseconds);
}

}  // namespace nanolith
