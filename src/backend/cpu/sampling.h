// Drawing a token from a row of logits on the host, and log-probabilities of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"

namespace nanolith::cpu {

// Memory that draws reuse; one for each thread.
struct SampleScratch {
    std::vector<float> edited;  // the row's logits after edits and mask, where it has any
    std::vector<float> logits;  // what filters have kept
    std::vector<double> weights;
};

struct Drawn {
    int32_t token = kNoToken;
    float surprise = 0;  // see Executor::read_surprises
};

// The token that `rule` draws from `logits` (not empty); see SampleParams. kNoToken where there is a NaN, or nothing
// above minus infinity. Takes time proportional to the vocabulary (expected). Throws std::bad_alloc where the scratch
// can't grow.
Drawn sample(std::span<const float> logits, const DrawRule& rule, SampleScratch& scratch);

// Answers `query`, whose token is given, into the first 1 + query.top elements of `found`.
void find_logprobs(std::span<const float> logits, const LogprobQuery& query, std::span<TokenLogprob> found);

}  // namespace nanolith::cpu
