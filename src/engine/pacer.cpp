#include "engine/pacer.h"

#include <algorithm>
#include <cmath>

namespace nanolith {

Pacer::Pacer(double step_ms, int32_t max_rows)
    : budget_(step_ms > 0 ? step_ms * 1000 : kStandardStep), protects_prefills_(step_ms <= 0), max_rows_(max_rows) {}

// Rows whose speed is kLeastShare of that of the largest step:
// rows / (fixed + row * rows) = kLeastShare * most / (fixed + row * most).
double Pacer::least_rows() const {
    if (!protects_prefills_ || squares_ == 0) return 0;
    const double row = products_ / squares_;
    const double fixed = mean_time_ - row * mean_rows_;
    if (row <= 0 || fixed <= 0) return 0;
    const double most = max_rows_;
    const double rows = kLeastShare * most * fixed / (fixed + (1 - kLeastShare) * row * most);
    return rows / (1 - kVariation);  // of the smaller sizes
}

int32_t Pacer::rows_beside_conversations() const {
    if (mean_time_ == 0) return std::min(kFirstRows, max_rows_);
    const double in_time = budget_ * mean_rows_ / mean_time_ / (1 + kVariation);  // of the larger sizes
    const double rows = std::max(in_time, least_rows()) * (larger_ ? 1 + kVariation : 1 - kVariation);
    return static_cast<int32_t>(std::clamp(rows, 1.0, static_cast<double>(max_rows_)));
}

void Pacer::ran(int32_t rows, int32_t prefill_rows, double microseconds) {
    last_step_ = microseconds;
    if (prefill_rows == 0 || microseconds <= 0) return;
    const auto average = [](double& mean, double newest) {
        mean = mean == 0 ? newest : (1 - kNewest) * mean + kNewest * newest;
    };
    average(mean_rows_, rows);
    average(mean_time_, microseconds);
    const double more_rows = rows - rows_before_;
    const double variation = std::abs(more_rows) / rows;
    if (rows_before_ > 0 && variation > kVariation / 2 && variation < 6 * kVariation) {
        squares_ = kOlder * squares_ + more_rows * more_rows;
        products_ = kOlder * products_ + more_rows * (microseconds - time_before_);
    }
    rows_before_ = rows;
    time_before_ = microseconds;
    larger_ = !larger_;
}

}  // namespace nanolith
