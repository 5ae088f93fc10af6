// A job: rows of one sequence that are to be computed. It is self-contained (page ids are copied), so that
// the scheduler needs neither caches nor chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace nanolith {

// A finished segment that the rows attend to. Chunks have a key (anything unique while the job runs): jobs
// with equal keys share one entry of the page table, and the backend sees that they share the pages.
struct History {
    const void* key = nullptr;
    std::vector<int32_t> pages;
    int32_t length = 0;
    int32_t base = 0;
};

struct Job {
    std::vector<History> history;
    History own;                   // the segment of the rows themselves; its length grows as they are computed
    std::vector<int32_t> tokens;   // the rows, at positions own.base + own.length and on
    bool recompute_last = false;   // the one row is the last token of `own`, in the cache already: write nothing
    std::optional<PageCopy> copy;  // done before the first row
    bool wants_token = false;      // draw after the last row
    SampleParams sampling;
    std::span<float> logits;  // receives the last row's logits, if not empty

    // The scheduler's.
    int32_t rows_done = 0;
    int32_t token = 0;
    bool finished = false;
    std::optional<Error> error;

    [[nodiscard]] int32_t rows_left() const { return static_cast<int32_t>(tokens.size()) - rows_done; }
};

}  // namespace nanolith
