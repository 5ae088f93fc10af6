// The kernels of nanolith_ops.h on one GPU.
#pragma once

#include <memory>
#include <string>

#include "backend/kernels.h"
#include "ops/paged_attention.h"

namespace nanolith::cuda {

std::unique_ptr<Kernels> make_kernels(const OpsDevice& device, std::string name);

}  // namespace nanolith::cuda
