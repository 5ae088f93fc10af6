// Steps of an executor for tests and benchmarks: one at a time, and those of a single sequence.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/executor.h"

namespace nanolith::testing {

// Submits a step and waits for what it draws.
inline Result<void> run_step(Executor& executor, const Batch& batch, std::span<int32_t> sampled) {
    NL_TRY(executor.submit(batch));
    if (batch.draws_late) NL_TRY(executor.submit_draws(batch));
    return executor.collect(sampled);
}

// The page table of a sequence that has the pages 0, 1, ...
inline std::vector<int32_t> table_of(int32_t num_pages) {
    std::vector<int32_t> table(num_pages);
    std::iota(table.begin(), table.end(), 0);
    return table;
}

// Rows [first, first + tokens.size()) of a sequence with this page table, and a draw after the last one. The first step
// brings the table.
inline Batch sequence_step(std::span<const int32_t> table, int32_t first, std::vector<int32_t> tokens) {
    const auto count = static_cast<int32_t>(tokens.size());
    Batch batch;
    batch.tokens = std::move(tokens);
    batch.positions.resize(batch.tokens.size());
    std::iota(batch.positions.begin(), batch.positions.end(), first);
    batch.key_positions = batch.positions;
    batch.slots = batch.positions;
    batch.page_table = table;
    if (first == 0) batch.changed_entries = {{0, static_cast<int32_t>(table.size())}};
    batch.segments = {{0, first + count, 0}};
    batch.sequences = {{0, count, 0, 1}};
    batch.output_rows = {count - 1};
    batch.sampling.resize(1);
    return batch;
}

}  // namespace nanolith::testing
