// A device for tests of the engine: it keeps tokens where others keep keys and values, and draws a hash of what a row
// sees. So it notices every wrong page, slot, position, page table entry, copy or token, and it costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace nanolith::testing {

// What a row at the end of `tokens` draws, where `uniform` is its random number.
int32_t fake_draw(const std::vector<int32_t>& tokens, double uniform, int32_t vocab_size);

// The log-probability that the fake device gives for a token, and the surprise where that token is drawn.
float fake_logprob(int32_t token);
float fake_surprise(int32_t token);

// What tests see of the device, and what they tell it.
struct FakeRecord {
    std::mutex mutex;
    std::vector<std::string> faults;      // what no correct caller does
    std::vector<size_t> rows;             // of each step
    std::vector<size_t> outputs;          // of each step
    std::vector<size_t> changed_entries;  // of each step
    std::atomic<int32_t> step_microseconds = 0;
    std::atomic<int32_t> row_microseconds = 0;
    std::atomic<int32_t> write_microseconds = 0;  // of pages that are brought from the host
    std::atomic<int32_t> fail_submit = 0;         // so many next ones fail
    std::atomic<int32_t> fail_draws = 0;
    std::atomic<int32_t> fail_undrawn = 0;
    std::atomic<int32_t> fail_collect = 0;
    std::atomic<int32_t> throw_submit = 0;    // std::bad_alloc
    std::atomic<int32_t> most_in_flight = 0;  // seen
    std::atomic<int32_t> late_draws = 0;      // steps whose draws came after the rest
    std::atomic<bool> edits_newest = false;   // it is a fault if a draw has no edit of the token just before it
    std::atomic<int32_t> hold = 0;            // 1: steps do not end
};

// `depth` steps may be in flight.
std::unique_ptr<Backend> make_fake_backend(std::shared_ptr<FakeRecord> record, int32_t depth);

// A model for it.
ModelSpec fake_spec(int32_t vocab_size, int32_t max_context);

}  // namespace nanolith::testing
