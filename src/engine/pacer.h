// How many rows of prefills a step takes beside running conversations, so that these wait no longer than a step may
// take, and prefills lose little by being cut. It learns from the steps that ran. Times are in microseconds.
#pragma once

#include <cstdint>

namespace nanolith {

class Pacer {
  public:
    // `step_ms`: how long a step may take. 0: 25, or more if prefills would else lose over a tenth of their speed.
    Pacer(double step_ms, int32_t max_rows);

    // Most rows of a step that has conversations, these included.
    [[nodiscard]] int32_t rows_beside_conversations() const;
    // Most rows of a step of prefills alone: as many as fit, but on a slow device fewer, so that a new request or a
    // cancellation does not wait for long.
    [[nodiscard]] int32_t rows_alone() const;
    // Reports that a step of `rows` rows, of which `prefill_rows` were of prefills, took `microseconds`.
    void ran(int32_t rows, int32_t prefill_rows, double microseconds);

    // How long the latest step took.
    [[nodiscard]] double last_step() const { return last_step_; }

  private:
    static constexpr double kStandardStep = 25'000;
    static constexpr double kLeastShare = 0.9;  // of the speed of prefills alone
    static constexpr int32_t kFirstRows = 256;  // before anything is known
    static constexpr double kAlone = 8;         // times what a step may take beside conversations
    // Fewer rows slow prefills down on a CPU, which repacks all weights in each step: 256 by a twentieth.
    static constexpr int32_t kLeastAlone = 512;
    static constexpr double kNewest = 0.5;  // weight of a step in the averages
    static constexpr double kEnough = 0.8;  // of the rows that keep that share
    static constexpr double kOver = 1.1;    // a size is taken whose time may be over by so much

    [[nodiscard]] double least_rows() const;

    const double budget_;
    const bool protects_prefills_;
    const int32_t max_rows_;
    // Averages over steps with prefills; 0: not known.
    double mean_rows_ = 0;
    double mean_time_ = 0;
    double conversations_ = 0;  // the latest step's time that had no prefill; 0: not known
    double last_step_ = 0;
};

}  // namespace nanolith
