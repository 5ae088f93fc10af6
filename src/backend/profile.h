// Where the time of an executor's steps goes: each phase's time beside what it must move and compute.
#pragma once

#include <string>
#include <vector>

#include "backend/phase.h"
#include "backend/step_traffic.h"

namespace nanolith {

// What a device can do at most; 0: not known.
struct Ceiling {
    double bytes_per_second = 0;
    double flops_per_second = 0;  // of products in the engine's dtype
};

// Sums over steps. An executor adds to it while it runs steps; its owner reads it when no step is in flight.
class Profile {
  public:
    struct PhaseSum {
        double seconds = 0;
        Traffic traffic;
    };
    struct Sums {
        int64_t steps = 0;
        int64_t rows = 0;
        ByPhase<PhaseSum> phases{};
    };

    void set_ceiling(const Ceiling& ceiling) { ceiling_ = ceiling; }
    // A step of `rows` rows; `decodes`: each of them draws a token.
    void add(bool decodes, int64_t rows, const StepTraffic& traffic, const ByPhase<double>& seconds);
    // Forgets the steps so far: those that only warm up.
    void clear() { decodes_ = prefills_ = Sums(); }

    // Steps in which every row draws a token.
    [[nodiscard]] const Sums& decodes() const { return decodes_; }
    // The others.
    [[nodiscard]] const Sums& prefills() const { return prefills_; }

    // A table, a line each, for decode steps and for the others; nothing where there were no steps.
    [[nodiscard]] std::vector<std::string> lines() const;

  private:
    void append_lines(const char* kind, const Sums& sums, std::vector<std::string>& lines) const;
    [[nodiscard]] double share_of_ceiling(const PhaseSum& sum) const;

    Ceiling ceiling_;
    Sums decodes_;
    Sums prefills_;
};

// Whether each row of the batch draws a token.
bool is_decode(const Batch& batch);

}  // namespace nanolith
