#include "backend/profile.h"

#include <algorithm>
#include <cstdio>

namespace nanolith {

void Profile::add(bool decodes, int64_t rows, const StepTraffic& traffic, const ByPhase<double>& seconds) {
    Sums& sums = decodes ? decodes_ : prefills_;
    ++sums.steps;
    sums.rows += rows;
    for (size_t i = 0; i < kNumPhases; ++i) {
        sums.phases[i].seconds += seconds[i];
        sums.phases[i].traffic += traffic[i];
    }
}

std::vector<std::string> Profile::lines() const {
    std::vector<std::string> lines;
    append_lines("decode", decodes_, lines);
    append_lines("prefill", prefills_, lines);
    return lines;
}

// The least time that the ceiling allows, as a share of the time taken. 0 where nothing is known.
double Profile::share_of_ceiling(const PhaseSum& sum) const {
    double least = 0;
    if (ceiling_.bytes_per_second > 0) least = sum.traffic.bytes() / ceiling_.bytes_per_second;
    if (ceiling_.flops_per_second > 0) least = std::max(least, sum.traffic.flops / ceiling_.flops_per_second);
    return least / sum.seconds;
}

void Profile::append_lines(const char* kind, const Sums& sums, std::vector<std::string>& lines) const {
    if (sums.steps == 0) return;
    const auto steps = static_cast<double>(sums.steps);
    PhaseSum all;
    for (const PhaseSum& phase : sums.phases) {
        all.seconds += phase.seconds;
        all.traffic += phase.traffic;
    }
    char line[160];
    std::snprintf(line, sizeof line, "profile of %lld %s steps, %.1f rows each; ceiling %.0f GB/s, %.0f TFLOP/s",
                  static_cast<long long>(sums.steps), kind, static_cast<double>(sums.rows) / steps,
                  ceiling_.bytes_per_second / 1e9, ceiling_.flops_per_second / 1e12);
    lines.emplace_back(line);
    const auto append = [&](const char* name, const PhaseSum& sum) {
        if (sum.seconds <= 0) return;
        std::snprintf(line, sizeof line, "  %-16s %9.4f ms %5.1f%% %9.1f GB/s %9.3f TFLOP/s %5.1f%% of the ceiling",
                      name, sum.seconds / steps * 1e3, 100 * sum.seconds / all.seconds,
                      sum.traffic.bytes() / sum.seconds / 1e9, sum.traffic.flops / sum.seconds / 1e12,
                      100 * share_of_ceiling(sum));
        lines.emplace_back(line);
    };
    for (size_t i = 0; i < kNumPhases; ++i) append(kPhaseNames[i], sums.phases[i]);
    append("all", all);
}

bool is_decode(const Batch& batch) {
    return batch.output_rows.size() == batch.tokens.size();
}

}  // namespace nanolith
