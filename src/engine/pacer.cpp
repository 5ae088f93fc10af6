#include "engine/pacer.h"

#include <algorithm>

namespace nanolith {
namespace {

// What sizes of about `rows` are multiples of: GPUs cut products into tiles of 128 rows, CPUs into few.
int32_t unit_of(double rows) {
    return rows >= 512 ? 128 : rows >= 128 ? 32 : rows >= 16 ? 8 : 1;
}

}  // namespace

Pacer::Pacer(double step_ms, int32_t max_rows)
    : budget_(step_ms > 0 ? step_ms * 1000 : kStandardStep), protects_prefills_(step_ms <= 0), max_rows_(max_rows) {}

// Rows whose speed is kLeastShare of that of the largest step:
// rows / (fixed + row * rows) = kLeastShare * most / (fixed + row * most).
// What a step costs whatever its rows is taken for what one without a prefill takes: it is no more than that.
double Pacer::least_rows() const {
    const double fixed = conversations_;
    if (!protects_prefills_ || fixed == 0 || mean_time_ <= fixed) return 0;
    const double row = (mean_time_ - fixed) / mean_rows_;
    const double most = max_rows_;
    return kLeastShare * most * fixed / (fixed + (1 - kLeastShare) * row * most);
}

int32_t Pacer::rows_beside_conversations() const {
    if (mean_time_ == 0) return std::min(kFirstRows, max_rows_);
    const double in_time = std::max(budget_ * mean_rows_ / mean_time_, 1.0);
    const double rows = std::min(std::max(in_time, least_rows()), static_cast<double>(max_rows_));
    const int32_t unit = unit_of(rows);
    const auto nearest = static_cast<int32_t>(rows / unit + 0.5) * unit;
    return std::clamp(nearest, 1, max_rows_);
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
