// The checks that every backend makes before it lets a batch near its kernels: a batch that passes indexes nothing
// outside the model, the page pool and the batch itself.
#pragma once

#include <span>

#include "backend/backend.h"

namespace nanolith {

// INTERNAL (the engine made the batch) with what is wrong, its place and what was expected. Checked are: the lengths of
// the arrays against each other and against max_rows and max_output_rows; tokens, positions, slots (no slot twice) and
// pages against their ranges; segments against the page table; that the sequences divide the rows in order, with
// consecutive positions; and that every row sees at least one key.
Result<void> check_batch(const ModelSpec& spec, const ExecutorOptions& options, const Batch& batch,
                         std::span<const int32_t> sampled);

}  // namespace nanolith
