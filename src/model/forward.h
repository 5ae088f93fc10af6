// The one forward pass, which serves every architecture and every device.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace nanolith {

// A decoder-only transformer with norms before attention and MLP: embedding, num_layers layers, head.
Forward make_forward(int32_t num_layers);

}  // namespace nanolith
