// How requests begin and end: what a step computed becomes the sequences' state, or is undone.
#include <algorithm>
#include <cmath>

#include "base/without_exceptions.h"
#include "engine/generation.h"
#include "engine/scheduler.h"
#include "engine/state_pool.h"
#include "grammar/grammar_limits.h"

namespace nanolith {

Result<void> Scheduler::make_place(std::span<const std::shared_ptr<Request>> requests) {
    const auto waiting =
        std::ranges::count_if(queue_, [](const auto& request) { return !request->finished && !request->is_ahead(); });
    if (waiting + static_cast<int64_t>(requests.size()) > options_.queue_limit)
        return nanolith::fail(NL_ERROR_BUSY, waiting, " requests wait or run, and ", requests.size(),
                              " more would be more than the engine's limit of ", options_.queue_limit);
    queue_.reserve(queue_.size() + requests.size());
    ended_calls_.reserve(queue_.size() + requests.size());
    return {};
}

Result<void> Scheduler::enqueue(std::span<std::shared_ptr<Request>> requests) {
    Result<void> outcome = without_exceptions([&] { return make_place(requests); });
    if (!outcome.ok()) {
        for (const auto& request : requests)
            if (!request->sequence->request) request->sequence->roll_back();
        return outcome;
    }
    bool adds_rows = false;
    for (auto& request : requests) {
        if (take_over(request)) continue;
        insert(request);
        adds_rows = true;
    }
    if (adds_rows) ++arrivals_;
    for (const auto& request : requests) take_known_token(*request);
    wake_callers();
    ++events_;
    if (gathered_at_ == 0 || arrivals_ >= gathered_at_) work_.notify_one();
    return {};
}

// Puts the request into the queue after all others of its priority.
void Scheduler::insert(const std::shared_ptr<Request>& request) {
    const auto before = [](int32_t priority, const auto& other) { return priority > other->priority; };
    queue_.insert(std::upper_bound(queue_.begin(), queue_.end(), request->priority, before), request);
    request->sequence->request = request;
}

// Gives a request the token that an earlier request of its sequence has drawn already (ResidentSequence::next), if any.
void Scheduler::take_known_token(Request& request) {
    const bool takes = request.draw == Draw::append || request.draw == Draw::generate;
    if (!takes || request.finished || !request.sequence->next) return;
    begin(request);
    drew_or_failed(request, DrawnToken(*request.sequence->next), {});
}

void Scheduler::end_overdue() {
    const auto now = Clock::now();
    for (const auto& request : queue_) {
        if (request->finished) continue;
        if (request->cancelled) {
            if (request->generation) {
                finish(*request, false);
                end(*request->generation, NL_END_CANCELLED);
            } else {
                fail_call(*request->call, {NL_ERROR_CANCELLED, "cancelled"});
            }
        } else if (request->deadline && *request->deadline <= now) {
            finish(*request, false);
            end(*request->generation, NL_END_DEADLINE);
        }
    }
}

void Scheduler::commit(Step& step, const Result<void>& outcome) {
    answered_ = 0;
    answered_before_ = arrivals_;
    for (const Slice& slice : step.slices()) --slice.sequence->steps_in_flight;
    for (const Slice& slice : step.slices()) {
        Request& request = *slice.request;
        if (!request.finished && !outcome.ok()) fail(request, outcome.error());
        if (!request.finished && !request.cancelled) commit_slice(slice, step);
        // A call that is to end does so here, when nothing of it is in flight any more. The slice may be an older one
        // of its sequence, from a generation that ended before the call began.
        const auto current = slice.sequence->request;
        if (current && current->cancelled && current->call && current->call->error)
            fail(*current, *current->call->error);
    }
    step.clear();
    wake_callers();
}

void Scheduler::commit_slice(const Slice& slice, const Step& step) {
    Request& request = *slice.request;
    ResidentSequence& sequence = *request.sequence;
    if (slice.rows == Rows::probe) return choose_blend(slice, step);
    if (slice.rows != Rows::drawn_again) {
        sequence.context.tokens_computed += slice.num_rows;
        if (request.generation) request.generation->computed(slice.num_rows);
    }
    if (slice.rows == Rows::blended) {
        sequence.context.tokens_blended += slice.num_rows;
        sequence.context.tokens_reused -= slice.num_rows;
        sequence.context.chunk_tokens_reused -= slice.num_rows;
        return end_blend_rows(request, slice.num_rows);
    }
    if (slice.rows == Rows::tail) {
        sequence.context.set_computed(slice.first_row + slice.num_rows);
        sequence.remember_prefix();
    }
    if (slice.num_scores > 0 && !take_scores(slice, step)) return fail_without_token(request);
    if (slice.num_states > 0 && !request.states->finite()) return fail_without_state(request);
    if (slice.output_index >= 0) {
        --sequence.draws_in_flight;
        const DrawnToken drawn{step.sampled[slice.output_index], step.surprises[slice.output_index]};
        if (drawn.token == kNoToken) return fail_without_token(request);
        drew_or_failed(request, drawn, std::span(step.logprobs).subspan(slice.first_logprob, slice.num_logprobs));
    } else if (request.draw == Draw::none && sequence.context.tail_computed() == sequence.context.tail_size()) {
        if (sequence.context.num_tokens() != sequence.num_tokens()) sequence.next.reset();  // it was after other tokens
        finish(request, true);
    }
}

// Copies the log-probabilities that the slice's rows gave to the request. False where one is NaN.
bool Scheduler::take_scores(const Slice& slice, const Step& step) {
    const Request& request = *slice.request;
    const auto found = std::span(step.logprobs).subspan(slice.first_logprob, static_cast<size_t>(slice.num_scores));
    const auto to = request.scores.subspan(static_cast<size_t>(slice.first_scored - request.scored_from));
    std::ranges::transform(found, to.begin(), &TokenLogprob::logprob);
    return std::ranges::none_of(found, [](const TokenLogprob& token) { return std::isnan(token.logprob); });
}

void Scheduler::choose_blend(const Slice& slice, const Step& step) {
    ResidentSequence& sequence = *slice.sequence;
    const auto weights = std::span(step.token_weights).subspan(slice.first_token_weight);
    try {
        sequence.blend->choose(sequence.context, weights);
    } catch (...) {
        fail(*slice.request, {NL_ERROR_OUT_OF_MEMORY, "out of memory"});
    }
}

void Scheduler::keep_blend(ResidentSequence& sequence) {
    if (sequence.shares_blend && options_.keeps_blends) sequence.kept = blends_.keep(sequence.context);
}

void Scheduler::end_blend_rows(Request& request, int32_t rows) {
    if (!request.sequence->blend->computed(rows)) return;
    try {
        keep_blend(*request.sequence);
    } catch (...) {
        fail(request, {NL_ERROR_OUT_OF_MEMORY, "out of memory"});
    }
}

void Scheduler::fail_without_token(Request& request) {
    if (request.generation && request.generation->no_token()) return fail(request, *request.generation->no_token());
    const int32_t position = request.sequence->context.num_tokens();
    Result<void> outcome = without_exceptions([&]() -> Result<void> {
        Error error = nanolith::fail(
            NL_ERROR_BAD_MODEL, "the step that draws the token at position ", position,
            " gave logits that are NaN or minus infinity: expected numbers: the model's weights are damaged, or too "
            "large for the engine's dtype");
        if (request.call == nullptr || request.call->requests.size() == 1) return error;
        const auto& all = request.call->requests;
        const auto is_this = [&](const auto& other) { return other.get() == &request; };
        return std::move(error).with(NL_DETAIL_INDEX, std::ranges::find_if(all, is_this) - all.begin());
    });
    fail(request, outcome.error());
}

void Scheduler::fail_without_state(Request& request) {
    const Result<void> outcome = without_exceptions([&]() -> Result<void> {
        return nanolith::fail(NL_ERROR_BAD_MODEL, "the hidden state of a token before position ",
                              request.sequence->context.num_tokens(),
                              " has NaN or infinity: expected numbers: the model's weights are damaged, or too large "
                              "for the engine's dtype");
    });
    fail(request, outcome.error());
}

void Scheduler::drew_or_failed(Request& request, const DrawnToken& drawn, std::span<const TokenLogprob> logprobs) {
    try {
        drew(request, drawn, logprobs);
    } catch (...) {
        fail(request, {NL_ERROR_OUT_OF_MEMORY, "out of memory"});
    }
}

// `logprobs`: where the generation wants them, those of the token and then of the most probable tokens; else empty.
void Scheduler::drew(Request& request, const DrawnToken& drawn, std::span<const TokenLogprob> logprobs) {
    ResidentSequence& sequence = *request.sequence;
    switch (request.draw) {
        case Draw::none:
            return;
        case Draw::remember:
            sequence.next = drawn;
            return finish(request, true);
        case Draw::append:
            request.drawn = drawn;
            request.ready = true;
            if (++request.call->ready == request.call->requests.size()) finish_call(*request.call);
            return;
        case Draw::generate:
            break;
    }
    sequence.context.reserve(1);
    if (!request.generation->follow(drawn.token)) {
        const Error error =
            nanolith::fail(NL_ERROR_UNSUPPORTED, "the text up to position ", sequence.context.num_tokens(),
                           " can be read in more than ", grammar::kMaxConfigs,
                           " ways of the constraint: expected a grammar that has fewer ways to read a text");
        return fail(request, error);
    }
    int32_t reason = request.generation->deliver(drawn.token, logprobs, metrics_);
    sequence.append_drawn(drawn);
    sequence.commit();
    if (reason == NL_END_NONE && request.generation->jumps_ahead()) reason = jump_ahead(request);
    if (reason == NL_END_NONE && sequence.context.num_tokens() >= options_.max_context) reason = NL_END_CONTEXT_FULL;
    if (reason == NL_END_NONE) return;
    finish(request, true);
    end(*request.generation, reason);
}

// Appends the tokens that the generation's constraint forces after the one just drawn. Why it ends with the last of
// them, or NL_END_NONE.
int32_t Scheduler::jump_ahead(Request& request) {
    ResidentSequence& sequence = *request.sequence;
    const auto room = static_cast<size_t>(options_.max_context - sequence.context.num_tokens());
    const auto tokens = request.generation->forced_tokens(room, *sequence.sampling);
    if (tokens.empty()) return NL_END_NONE;
    sequence.context.reserve(static_cast<int32_t>(tokens.size()));
    // The row of the token just drawn may be in the next step already, whose draws wait for this commit.
    if (undrawn_) newest().drop_draw(sequence);
    for (const int32_t token : tokens) {
        static_cast<void>(request.generation->follow(token));  // it was allowed when it was found to be forced
        const int32_t reason = request.generation->deliver(token, {}, metrics_);
        sequence.context.append({&token, 1});
        sequence.commit();
        if (reason != NL_END_NONE) return reason;
    }
    return NL_END_NONE;
}

// Either all caches of a call advance or none does: by now every token is drawn, and memory for it was reserved when
// the call began.
void Scheduler::finish_call(Call& call) {
    if (call.error) return;
    bool all_ahead = true;
    for (const auto& request : call.requests) {
        const auto sequence = request->sequence;
        sequence->append_drawn(request->drawn);
        finish(*request, true);
        all_ahead = go_ahead(sequence) && all_ahead;
    }
    if (!all_ahead) ++answered_;
}

void Scheduler::finish(Request& request, bool keep) noexcept {
    const auto sequence = std::move(request.sequence);  // where no handle is left, this frees its pages
    if (keep) sequence->commit();
    sequence->roll_back();
    request.finished = true;
    if (request.call != nullptr && ++request.call->finished == request.call->requests.size())
        ended_calls_.push_back(request.call->shared_from_this());  // cannot allocate: its capacity was reserved
    if (waiting_for_idle_ > 0) idle_.notify_all();
    sequence->request.reset();
}

void Scheduler::end(Generation& generation, int32_t reason, const Error* error) noexcept {
    ++metrics_.ended[static_cast<size_t>(reason)];
    generation.end(reason, error);
}

// Each caller that is woken wakes two more: a tree, so that many callers are awake soon.
void Scheduler::wake_callers() noexcept {
    if (ended_calls_.empty()) return;
    for (size_t i = 1; i < ended_calls_.size(); ++i) ended_calls_[(i - 1) / 2]->wakes[(i - 1) % 2] = ended_calls_[i];
    ended_calls_.front()->woken.release();
    ended_calls_.clear();
}

void Scheduler::fail(Request& request, const Error& error) noexcept {
    if (request.finished) return;
    if (request.call) return fail_call(*request.call, error);
    finish(request, false);
    if (request.generation) end(*request.generation, NL_END_ERROR, &error);
}

void Scheduler::fail_call(Call& call, const Error& error) noexcept {
    if (!call.error) {
        try {
            call.error = error;
        } catch (...) {
            call.error =
                Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};  // a text this short is stored in the string itself
        }
    }
    for (const auto& request : call.requests) {
        if (request->finished) continue;
        request->cancelled = true;
        // Its caller must not return while the device may still write to the memory that the caller gave.
        if (request->sequence->steps_in_flight == 0) finish(*request, false);
    }
}

void Scheduler::fail_all(const Error& error) noexcept {
    for (const auto& request : queue_) fail(*request, error);
}

}  // namespace nanolith
