// One step as the scheduler plans it: rows of sequences, and the batch that an executor takes.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/batch.h"
#include "engine/request.h"

namespace nanolith {

// A request's rows in a step.
struct Slice {
    std::shared_ptr<Request> request;
    std::shared_ptr<ResidentSequence> sequence;  // whose rows they are, when the request has ended too
    int32_t first_row = 0;                       // of the sequence's tail
    int32_t num_rows = 0;
    int32_t output_index = -1;  // of the step's draws; -1: none of its rows draws
    bool recomputed = false;    // the one row is in the cache already: it is computed again for its draw alone
};

// Builds and keeps one step; its memory is used again by later ones.
class Step {
  public:
    void clear();
    [[nodiscard]] bool empty() const { return slices_.empty(); }
    [[nodiscard]] int32_t num_rows() const { return static_cast<int32_t>(batch_.tokens.size()); }
    [[nodiscard]] int32_t num_outputs() const { return static_cast<int32_t>(batch_.output_rows.size()); }
    [[nodiscard]] int32_t num_kept_logits() const { return static_cast<int32_t>(batch_.kept_logits.size()); }
    [[nodiscard]] Batch& batch() { return batch_; }
    [[nodiscard]] const std::vector<Slice>& slices() const { return slices_; }
    [[nodiscard]] std::vector<PageCopy>& copies() { return copies_; }

    // Adds rows [planned, planned + num_rows) of the request's sequence, whose pages are there. `draws`: the last one
    // draws a token. `keep_logits`: its logits will be read. The sequence then has these rows in flight.
    void add(const std::shared_ptr<Request>& request, int32_t num_rows, bool draws, bool keep_logits,
             int32_t page_size);
    // Adds one row that computes the sequence's last token once more and writes nothing.
    void add_recomputed(const std::shared_ptr<Request>& request, bool keep_logits);

    std::vector<int32_t> sampled;  // [outputs] when it is collected
    Clock::time_point submitted{};
    int32_t prefill_rows = 0;      // of slices of more than one row
    bool answers_callers = false;  // it draws for calls, whose threads come back for the next token

  private:
    void add_slice(const std::shared_ptr<Request>& request, Slice slice, int32_t visible);
    void add_output(const Request& request, Slice& slice, bool keep_logits);

    Batch batch_;
    std::vector<Slice> slices_;
    std::vector<PageCopy> copies_;
};

}  // namespace nanolith
