#include "engine/state_pool.h"

#include <algorithm>
#include <cmath>

#include "nanolith/nanolith.h"

namespace nanolith {
namespace {

void divide_by_length(std::span<float> vector) {
    double squares = 0;
    for (const float number : vector) squares += static_cast<double>(number) * static_cast<double>(number);
    if (squares == 0) return;
    const double factor = 1 / std::sqrt(squares);
    for (float& number : vector) number = static_cast<float>(static_cast<double>(number) * factor);
}

}  // namespace

StatePool::StatePool(int32_t pooling, int32_t first, int32_t count, int32_t hidden)
    : wants_all_(pooling != NL_POOLING_LAST),
      adds_(pooling == NL_POOLING_MEAN),
      first_wanted_(wants_all_ ? first : first + count - 1),
      end_wanted_(first + count),
      hidden_(static_cast<size_t>(hidden)) {
    const bool has_one = adds_ || !wants_all_;
    vectors_.resize(has_one ? hidden_ : hidden_ * static_cast<size_t>(count));
    if (adds_) sum_.resize(hidden_);
}

std::span<float> StatePool::next() {
    return std::span(vectors_).subspan(adds_ ? 0 : taken_ * hidden_, hidden_);
}

void StatePool::take() {
    const std::span<const float> state = next();
    finite_ = finite_ && std::ranges::all_of(state, [](float number) { return std::isfinite(number); });
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(state[i]);
    ++taken_;
}

std::vector<float> StatePool::finish(bool normalized) && {
    const auto count = static_cast<double>(taken_);
    for (size_t i = 0; i < sum_.size(); ++i) vectors_[i] = static_cast<float>(sum_[i] / count);
    for (size_t at = 0; normalized && at < vectors_.size(); at += hidden_)
        divide_by_length(std::span(vectors_).subspan(at, hidden_));
    return std::move(vectors_);
}

}  // namespace nanolith
