// What the server counts, and its text for Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "handles.h"

namespace server {

enum class Outcome { answered, refused, rejected, cancelled, failed };
constexpr size_t kNumOutcomes = 5;

// Counts of observations at or below each bound. Added to from many threads.
class Histogram {
  public:
    explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

    // `count` observations of `value`.
    void add(double value, uint64_t count = 1);
    void write(std::string& out, const std::string& name, const std::string& help) const;

  private:
    std::vector<double> bounds_;
    std::vector<std::atomic<uint64_t>> counts_;
    std::atomic<uint64_t> sum_micros_{0};
};

class Metrics {
  public:
    void count(Outcome outcome) { outcomes_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed); }
    // The text that /metrics gives: these counts and the engine's.
    [[nodiscard]] std::string text(const nl_engine* engine, const std::string& model) const;

    // Generations under way: those that wait for their first token, and those that have it.
    std::atomic<int64_t> waiting{0};
    std::atomic<int64_t> running{0};
    std::atomic<int64_t> connections{0};  // open now
    std::atomic<uint64_t> prompt_tokens{0};
    std::atomic<uint64_t> cached_tokens{0};  // of these, those that were not computed
    std::atomic<uint64_t> answer_tokens{0};
    Histogram first_token{{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}};
    Histogram token_gap{{.0005, .001, .0025, .005, .01, .015, .02, .03, .05, .075, .1, .25, .5, 1, 2.5}};
    Histogram total{{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}};

  private:
    std::array<std::atomic<uint64_t>, kNumOutcomes> outcomes_{};
};

}  // namespace server
