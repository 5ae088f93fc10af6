// Telling a caller how far a long work is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace nanolith {

// Is called with how much of a long work is done, from 0 to 1, on the thread that asked for the work. False ends it.
using Progress = std::function<bool(double done)>;

// Tells `progress`, which may be empty, that this share of the whole is done. CANCELLED where it answers false.
inline Result<void> report(const Progress& progress, double done) {
    if (!progress || progress(done)) return {};
    return fail(NL_ERROR_CANCELLED, "the progress callback asked for the end");
}

// One part of a long work: the shares [from, to] of the whole, counted in `total` units. `progress` must outlive it.
class PartProgress {
  public:
    PartProgress(const Progress& progress, double from, double to, uint64_t total)
        : progress_(progress), from_(from), to_(to), total_(total) {}

    // `units` more are done.
    Result<void> add(uint64_t units) {
        done_ += units;
        const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(std::max(total_, done_)));
        return report(progress_, done_ == 0 ? from_ : from_ + (to_ - from_) * share);
    }

  private:
    const Progress& progress_;
    double from_;
    double to_;
    uint64_t total_;
    uint64_t done_ = 0;
};

}  // namespace nanolith
