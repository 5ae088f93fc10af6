#include "engine/pacer.h"

#include <algorithm>
#include <bit>

namespace nanolith {

Pacer::Pacer(double step_ms, int32_t max_rows)
    : budget_(step_ms > 0 ? step_ms * 1000 : kStandardStep), protects_prefills_(step_ms <= 0), max_rows_(max_rows) {}

int Pacer::class_of(int32_t rows) {
    return std::min<int>(static_cast<int>(std::bit_width(static_cast<uint32_t>(rows))), kClasses) - 1;
}

double Pacer::best_speed() const {
    return *std::ranges::max_element(speeds_);
}

int32_t Pacer::rows_beside_conversations() const {
    if (row_time_ == 0) return std::min(kFirstRows, max_rows_);
    auto rows = static_cast<int32_t>(std::clamp(budget_ / row_time_, 1.0, static_cast<double>(max_rows_)));
    // A size that is known to be slow is doubled until it is not: a larger one that is not known yet is tried.
    while (protects_prefills_ && rows < max_rows_) {
        const double speed = speeds_[static_cast<size_t>(class_of(rows))];
        if (speed == 0 || speed >= kLeastShare * best_speed()) break;
        rows = std::min(2 * rows, max_rows_);
    }
    return rows;
}

void Pacer::ran(int32_t rows, int32_t prefill_rows, double microseconds) {
    last_step_ = microseconds;
    if (prefill_rows == 0 || microseconds <= 0) return;
    const auto remember = [](double& known, double newest) {
        known = known == 0 ? newest : (1 - kNewest) * known + kNewest * newest;
    };
    double& speed = speeds_[static_cast<size_t>(class_of(rows))];
    remember(speed, rows / microseconds);
    // A last, short slice says little about the next full one.
    if (rows >= rows_beside_conversations() / 2) remember(row_time_, microseconds / rows);
}

}  // namespace nanolith
