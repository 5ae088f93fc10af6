#include "engine/pacer.h"

#include <algorithm>
#include <cmath>

namespace nanolith {

namespace {

// What sizes of about `rows` are multiples of: GPUs' tiles of products have 128 rows, and CPUs' few.
int32_t unit_of(int32_t rows) {
    return rows >= 512 ? 128 : rows >= 128 ? 32 : rows >= 16 ? 8 : 1;
}

}  // namespace

Pacer::Pacer(double step_ms, int32_t max_rows)
    : budget_(step_ms > 0 ? step_ms * 1000 : kStandardStep), protects_prefills_(step_ms <= 0), max_rows_(max_rows) {}

// Rows whose speed is kLeastShare of that of the largest step:
// rows / (fixed + row * rows) = kLeastShare * most / (fixed + row * most).
double Pacer::least_rows() const {
    if (!protects_prefills_ || squares_ == 0) return 0;
    const double row = products_ / squares_;
    // What a step costs whatever its rows is no more than a step of few rows takes.
    const double fixed = std::min(mean_time_ - row * mean_rows_, conversations_);
    if (row <= 0 || fixed <= 0) return 0;
    const double most = max_rows_;
    return kLeastShare * most * fixed / (fixed + (1 - kLeastShare) * row * most);
}

int32_t Pacer::rows_beside_conversations() const {
    if (mean_time_ == 0) return std::min(kFirstRows, max_rows_);
    const double in_time = std::max(budget_ * mean_rows_ / mean_time_, 1.0);
    const double least = least_rows();
    const auto most = static_cast<double>(max_rows_);
    const auto rows = static_cast<int32_t>(std::min(std::max(in_time, least), most));
    const int32_t unit = unit_of(rows);
    const int32_t whole = rows / unit * unit;
    const bool smaller = steps_ % kSmallerEach == 0 && whole >= 4 * unit;
    return std::min(smaller ? whole - unit : whole, max_rows_);
}

void Pacer::ran(int32_t rows, int32_t prefill_rows, double microseconds) {
    last_step_ = microseconds;
    if (prefill_rows == 0) conversations_ = microseconds;
    if (prefill_rows == 0 || microseconds <= 0) return;
    const auto average = [](double& mean, double newest) {
        mean = mean == 0 ? newest : (1 - kNewest) * mean + kNewest * newest;
    };
    average(mean_rows_, rows);
    average(mean_time_, microseconds);
    const double more_rows = rows - rows_before_;
    const double variation = std::abs(more_rows) / rows;
    if (rows_before_ > 0 && variation > kVariation / 2 && variation < 5 * kVariation) {
        squares_ = kOlder * squares_ + more_rows * more_rows;
        products_ = kOlder * products_ + more_rows * (microseconds - time_before_);
    }
    rows_before_ = rows;
    time_before_ = microseconds;
    ++steps_;
}

}  // namespace nanolith
