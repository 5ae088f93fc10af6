// What nl_engine_metrics gives.
#pragma once

#include <string>

#include "engine/engine.h"

namespace nanolith::api {

// The engine's counts in Prometheus' text format.
std::string metrics_text(Engine& engine);

}  // namespace nanolith::api
