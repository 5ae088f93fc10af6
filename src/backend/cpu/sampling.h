// Drawing a token from a row of logits on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"

namespace nanolith::cpu {

// Memory that draws reuse; one for each thread.
struct SampleScratch {
    std::vector<float> logits;
    std::vector<double> weights;
};

// The token that `params` draw from `logits` (not empty); see SampleParams. Every filter is a threshold on the logit,
// so tokens that tie with the last kept one are kept. kNoToken where there is a NaN, or nothing above minus infinity.
// Takes time proportional to the vocabulary (expected). Throws std::bad_alloc where the scratch can't grow.
int32_t sample(std::span<const float> logits, const SampleParams& params, SampleScratch& scratch);

}  // namespace nanolith::cpu
