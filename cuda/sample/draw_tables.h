// Arrays that the draws of a step read beside its logits and SampleParams, and those that they write to.
#pragma once

#include <cstdint>

#include "backend/batch.h"

namespace nanolith::cuda {

// What log-probabilities an output row is asked for; see LogprobQuery.
struct RowQuery {
    int32_t token = -1;  // -1: the one drawn
    int32_t top = 0;
    int32_t first = -1;  // where its 1 + top answers begin; -1: it is not asked for any
};

struct DrawTables {
    // Page-locked host memory.
    int32_t* sampled = nullptr;        // [output rows]
    float* surprises = nullptr;        // [output rows], of rows with a finite most_surprise
    TokenLogprob* logprobs = nullptr;  // the queries' answers
    // On the device.
    LogitEdit* edits = nullptr;         // of all rows; a draw overwrites those of its row
    const RowQuery* queries = nullptr;  // [output rows], or null: no row is asked
    const uint32_t* masks = nullptr;    // [masks][mask_words(vocab_size)]
};

}  // namespace nanolith::cuda
