// One step as the scheduler plans it: rows of sequences, and the batch that an executor takes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/batch.h"
#include "engine/request.h"

namespace nanolith {

// What a slice's rows are.
enum class Rows : uint8_t {
    tail,         // of the sequence's tail
    drawn_again,  // one row, in the cache already, computed again only to draw after it
    probe,        // of the tail, computed over chunks that are not blended yet; they are computed again later
    blended       // of chunks, recomputed
};

// A request's rows in a step.
struct Slice {
    std::shared_ptr<Request> request;
    std::shared_ptr<ResidentSequence> sequence;  // whose rows these are; set even if the request has ended
    int32_t first_row = 0;  // first of its rows, counted in the sequence's tail; 0 for blended ones
    int32_t num_rows = 0;
    int32_t output_index = -1;  // index in `sampled` of the token it draws; -1: it draws none
    Rows rows = Rows::tail;
    size_t first_token_weight = 0;  // of a probe: in Step::token_weights
    size_t first_logprob = 0;       // in Step::logprobs
    size_t num_logprobs = 0;        // of its scored tokens, and of the token drawn
    int32_t num_scores = 0;         // how many given tokens its rows score (Request::scores)
    int32_t first_scored = 0;       // index in the tail of the first of them
    int32_t first_state = 0;        // in Batch::state_rows
    int32_t num_states = 0;         // hidden states that the request's StatePool takes
};

// Whether the row before the request's first scored token must be computed once more for its logits, and is not planned
// yet: that row was computed by an earlier request.
bool scores_before(const Request& request);

// Builds and keeps one step; its memory is used again by later ones.
class Step {
  public:
    void clear();
    // The model's vocabulary and longest context. To be called before rows are added.
    void set_limits(int32_t vocab_size, int32_t max_context) {
        vocab_size_ = vocab_size;
        max_context_ = max_context;
    }
    [[nodiscard]] bool empty() const { return slices_.empty(); }
    [[nodiscard]] int32_t num_rows() const { return static_cast<int32_t>(batch_.tokens.size()); }
    [[nodiscard]] int32_t num_outputs() const { return static_cast<int32_t>(batch_.output_rows.size()); }
    [[nodiscard]] int32_t num_kept_logits() const { return static_cast<int32_t>(batch_.kept_logits.size()); }
    [[nodiscard]] Batch& batch() { return batch_; }
    [[nodiscard]] const std::vector<Slice>& slices() const { return slices_; }
    [[nodiscard]] std::vector<PageCopy>& copies() { return copies_; }

    // Adds the rows [planned, planned + num_rows) of the request's sequence, which has pages for them. `draws`: a token
    // is drawn after the last one. `keep_logits`: its logits will be read. The rows then count as planned.
    void add(const std::shared_ptr<Request>& request, int32_t num_rows, bool draws, bool keep_logits,
             int32_t page_size);
    // Where scores_before(): adds a row that computes the token before the scored ones once more, for the
    // log-probability of the first scored one.
    void add_row_before(const std::shared_ptr<Request>& request);
    // Adds the rows of the sequence's probe, which has pages for them.
    void add_probe(const std::shared_ptr<Request>& request, int32_t page_size);
    // Adds the next `num_rows` rows of the sequence's blend.
    void add_blended(const std::shared_ptr<Request>& request, int32_t num_rows, int32_t page_size);
    // Adds one row that computes the sequence's last token once more and writes nothing, to draw after it or for its
    // hidden state.
    void add_recomputed(const std::shared_ptr<Request>& request, bool keep_logits);

    // Whether a draw depends on the token that the step before draws (through penalties, Mirostat or a constraint), or
    // on what a caller makes of the logits. The batch has draws_late then, and its draws are made ready when that step
    // is committed.
    [[nodiscard]] bool draws_wait() const { return batch_.draws_late; }
    // Makes all draws ready but for masks of constraints. With the engine's mutex, once after the last row was added
    // and, where draws_wait(), after the step before was committed.
    void add_draws();
    // The sequence draws nothing in this step after all, whose draws wait: the token after its row is known.
    void drop_draw(ResidentSequence& sequence);
    // Makes these masks, which may take a while: without the mutex.
    void fill_masks() noexcept;
    // A conversation whose logits its caller changes before they are drawn from.
    struct Changed {
        std::shared_ptr<Request> request;
        int32_t output_row = 0;
        std::vector<int32_t> tokens;      // of its whole context
        bool ends = false;                // the caller wants it to end
        std::optional<Error> error = {};  // what was wrong with the logits that the caller left
    };
    [[nodiscard]] std::vector<Changed>& changed() { return changed_; }

    std::vector<int32_t> sampled;        // [outputs] when it is collected
    std::vector<float> token_weights;    // of its probes, when it is collected
    std::vector<float> surprises;        // [outputs] when it is collected, where `wants_surprises`
    std::vector<TokenLogprob> logprobs;  // [num_logprobs] of its slices in order, when it is collected
    bool wants_surprises = false;        // a conversation in it draws with Mirostat
    size_t num_logprobs = 0;
    Clock::time_point submitted{};
    // While the step is planned: the request whose rows are being added, or were added last. Where planning fails, its
    // sequence may be half changed.
    std::shared_ptr<Request> added_last;
    int32_t prefill_rows = 0;      // rows that belong to slices of more than one row
    bool answers_callers = false;  // it draws for nl_decode_step, whose callers will ask for the next token

  private:
    void add_row(const Context& context, int32_t position, int32_t key_position, int32_t slot);
    void add_slice(const std::shared_ptr<Request>& request, Slice slice, int32_t visible);
    void add_sequence(int32_t num_rows, size_t first_segment);
    void add_chunks(const Context& context, size_t count);
    void keep_slice(Slice slice);
    void add_draw(const Slice& slice);
    void add_mask(const Request& request, SampleParams& params);
    void add_output(const Request& request, Slice& slice, bool keep_logits);
    void add_scores(const Request& request, Slice& slice);
    void add_states(const Request& request, Slice& slice);
    void add_logprobs(Slice& slice, int32_t output, int32_t token, int32_t top);

    Batch batch_;
    std::vector<Slice> slices_;
    std::vector<PageCopy> copies_;
    // A constrained conversation that draws.
    struct Masked {
        std::shared_ptr<Generation> generation;
        int64_t room = 0;  // tokens that its context has room for
        int32_t mask = 0;  // index of its mask in Batch::masks, counted in masks
    };
    std::vector<Masked> masked_;
    std::vector<Changed> changed_;
    int32_t vocab_size_ = 0;
    int32_t max_context_ = 0;
    size_t num_token_weights_ = 0;  // of the probes
};

}  // namespace nanolith
