// What tells the layers of a model apart: windows, rotation and experts, as config.json has them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/model_spec.h"
#include "base/result.h"
#include "files/json_fields.h"
#include "model/architecture.h"

namespace nanolith {

// For each of spec.num_layers layers. BAD_MODEL names a wrong field; UNSUPPORTED one that asks for what is not
// computed here.

// Sets spec.layers: their windows, and the index of their rotation among full (0), windowed (1, where `has_local`) and
// none at all (the last, where a layer has none; *has_none tells).
Result<void> read_layers(const JsonFields& fields, const Architecture& architecture, bool has_local, ModelSpec& spec,
                         bool* has_none);

// Sets spec.experts. has_experts[i] tells whether layer i has them.
Result<std::vector<bool>> read_experts(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec);

}  // namespace nanolith
