// From a cache's sampling options to one draw.
#pragma once

#include "backend/batch.h"
#include "engine/options.h"

namespace nanolith {

// The draw for the token at `position`: its random number is a function of the seed and the position alone,
// so that a draw can be repeated and nothing has to be remembered between two.
SampleParams sample_params(const SamplingOptions& options, int32_t position);

}  // namespace nanolith
