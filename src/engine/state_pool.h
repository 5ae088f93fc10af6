// What nl_cache_embed makes of the hidden states of a call's tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nanolith {

// Takes hidden states in the order of their tokens, and makes one vector of all of them or one of each. Sums are of
// float64 and have one order, whatever steps the states come from. Taking them needs no memory.
class StatePool {
  public:
    // For a request that adds the tokens [first, first + count) of a tail; `pooling` is one of NL_POOLING_*, and
    // `hidden` how many numbers a state has. With count 0 it takes the state of the token before.
    StatePool(int32_t pooling, int32_t first, int32_t count, int32_t hidden);

    // States are taken of the tail's tokens [first_wanted(), end_wanted()): of the last one alone, or of all that the
    // request adds.
    [[nodiscard]] int32_t first_wanted() const { return first_wanted_; }
    [[nodiscard]] int32_t end_wanted() const { return end_wanted_; }
    [[nodiscard]] bool wants_all() const { return wants_all_; }

    // Where the next state is to be written, [hidden], before it is taken.
    [[nodiscard]] std::span<float> next();
    void take();
    // Whether all numbers that were taken are finite.
    [[nodiscard]] bool finite() const { return finite_; }

    // When all states are taken: the vectors one after the other. `normalized`: each is divided by its length.
    std::vector<float> finish(bool normalized) &&;

    // The scheduler's: the row of the last of these tokens is computed or in flight.
    bool planned = false;

  private:
    const bool wants_all_;
    const bool adds_;  // they are added up, for a mean
    const int32_t first_wanted_;
    const int32_t end_wanted_;
    const size_t hidden_;
    size_t taken_ = 0;
    bool finite_ = true;
    std::vector<float> vectors_;
    std::vector<double> sum_;
};

}  // namespace nanolith
