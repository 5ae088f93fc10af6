// What the queue of the step loop holds: work on one sequence. Prefilled chunks, extended caches, single draws,
// logits and generations are all requests; they differ in what becomes of the token that their last row draws. The
// engine's mutex guards them.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/clock.h"
#include "engine/sequence.h"

namespace nanolith {

class Generation;
class StatePool;
struct Request;

// A blocking call: one request, or several that succeed or fail together. The caller waits until all of them are
// finished and it is woken; from then on nobody else uses the call.
struct Call : std::enable_shared_from_this<Call> {
    std::vector<std::shared_ptr<Request>> requests;
    size_t ready = 0;     // requests with Draw::append whose token is drawn
    size_t finished = 0;  // requests that the scheduler is done with
    std::optional<Error> error;

    std::binary_semaphore woken{0};
    std::array<std::shared_ptr<Call>, 2> wakes;  // once this call's thread is woken, it wakes the threads of these
};

enum class Draw : uint8_t {
    none,      // draws no token: a chunk that is prefilled, nl_cache_embed
    remember,  // draws one token and keeps it as ResidentSequence::next: nl_cache_extend, nl_cache_logits
    append,    // draws one token and appends it to the context: nl_decode_step
    generate   // draws and appends tokens until the generation ends
};

struct Request {
    std::shared_ptr<ResidentSequence> sequence;  // the tokens to compute are already appended to its context
    Draw draw = Draw::none;
    std::span<float> logits;  // of the last row, where they are asked for
    // Gets the log-probabilities of the tokens that the request adds; empty where they are not asked for. The first
    // token of an empty context has none, and its element is not written.
    std::span<float> scores;
    int32_t scored_from = 0;      // index in the tail of the first of these tokens
    StatePool* states = nullptr;  // takes hidden states, where they are asked for; with Draw::none alone

    // At most one of these two is set. The caller keeps the call alive until all of its requests are finished.
    Call* call = nullptr;
    std::shared_ptr<Generation> generation;
    // It has neither, since nobody has asked for its token yet (ahead.cpp).
    [[nodiscard]] bool is_ahead() const { return call == nullptr && generation == nullptr; }

    int32_t priority = 0;
    std::optional<Clock::time_point> deadline;

    // The scheduler's.
    bool started = false;
    bool row_before_planned = false;  // see Step::add_row_before
    bool blends = false;              // its blend has begun (Blend::begin)
    bool cancelled = false;  // to be ended by the loop: a generation at once, a call when nothing of it is in flight
    bool ready = false;      // Draw::append: the token is drawn, others of the call are not
    bool finished = false;   // its rows in flight are ignored when they are collected
    bool waits_for_pages = false;
    DrawnToken drawn;  // Draw::append: set when `ready`
};

}  // namespace nanolith
