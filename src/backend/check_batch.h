// The checks that every backend makes before it lets a batch near its kernels: a batch that passes indexes nothing
// outside the model, the page pool and the batch itself.
#pragma once

#include <cstddef>
#include <span>

#include "backend/batch.h"
#include "backend/executor.h"
#include "backend/model_spec.h"

namespace nanolith {

// INTERNAL (the engine made the batch) with what is wrong, its place and what was expected. Checked are: the lengths of
// the arrays against each other and against max_rows, max_output_rows and max_kept_logits; tokens, positions, slots (no
// slot twice), state rows, probes and the pages of changed entries against their ranges; segments against the page
// table; that the sequences divide the rows in order, with consecutive positions; and that every row sees at least one
// key. `drawn_before`: output rows of the step submitted just before, which drawn_by() may name. Entries of the page
// table that did not change were checked when they did: the cost does not grow with the table.
Result<void> check_batch(const ModelSpec& spec, const ExecutorOptions& options, const Batch& batch,
                         size_t drawn_before);

// INTERNAL where `sampling` has another length than output_rows, or says something that a draw can't do. Of batches
// with draws_late, for submit_draws(); check_batch() calls it for the others.
Result<void> check_draws(const Batch& batch, int32_t vocab_size);

// INTERNAL where a step with `num_outputs` output rows has no row `output_row`, or a row of logits is not `num_logits`
// long.
Result<void> check_row_of_logits(const ModelSpec& spec, int32_t output_row, size_t num_outputs, size_t num_logits);

// INTERNAL where a page is not in the pool.
Result<void> check_copies(const ExecutorOptions& options, std::span<const PageCopy> copies);

// INTERNAL where a page is not in the pool, or `bytes` is not what so many pages have over all layers.
Result<void> check_moves(const ModelSpec& spec, const ExecutorOptions& options, std::span<const int32_t> pages,
                         size_t bytes);

}  // namespace nanolith
