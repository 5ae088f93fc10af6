// Which models the kernels compute.
#pragma once

#include <optional>

#include "backend/backend.h"

namespace nanolith::cuda {

// UNSUPPORTED names what the model has that is not computed.
Result<void> check_supported(const ModelSpec& spec, const ModelWeights& weights);

// The factor that all pairs of a head are multiplied by, where there is one: queries and keys have it, so scores have
// its square.
std::optional<float> magnitude_of(const RopeSpec& rope);

}  // namespace nanolith::cuda
