// Which experts compute which rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/model_spec.h"

namespace nanolith::cpu {

// A row that an expert computes, and how much its output counts.
struct Route {
    int64_t row;
    float share;
};

// Grouped by expert, so that each expert's weights are read once for a batch.
class Routing {
  public:
    // Takes the top_k experts of each row (the first of equal ones) by the softmax of its logits; `logits` is
    // [rows, experts.count]. Throws std::bad_alloc.
    void choose(const ExpertSpec& experts, const float* logits, int64_t rows);

    // In ascending order of rows.
    [[nodiscard]] std::span<const Route> rows_of(int32_t expert) const { return routes_[expert]; }

  private:
    std::vector<std::vector<Route>> routes_;  // by expert
    std::vector<int32_t> order_;
};

}  // namespace nanolith::cpu
