#include "engine/scheduler.h"

#include <algorithm>

#include "backend/probe.h"
#include "base/without_exceptions.h"
#include "engine/generation.h"
#include "engine/state_pool.h"

namespace nanolith {
namespace {

// After a step that answered callers of nl_decode_step, the next step waits for their next calls. It stops waiting when
// none has arrived for kQuietShare of the previous step's time (at least kQuietLeast and at most kQuietMost
// microseconds), or when it has waited as long as that step took.
constexpr double kQuietShare = 0.05;
constexpr double kQuietLeast = 600;
constexpr double kQuietMost = 2000;

std::chrono::microseconds to_duration(double microseconds) {
    return std::chrono::microseconds(static_cast<int64_t>(microseconds));
}

}  // namespace

Scheduler::Scheduler(std::unique_ptr<Executor> executor, const SchedulerOptions& options, std::mutex& mutex,
                     PagePool& pool, ChunkStore& store, BlendStore& blends)
    : executor_(std::move(executor)),
      options_(options),
      mutex_(mutex),
      pool_(pool),
      store_(store),
      blends_(blends),
      pacer_(options.step_ms, options.max_rows),
      thread_([this] { loop(); }) {}

Scheduler::~Scheduler() {
    stop();
}

void Scheduler::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake();
    }
    thread_.join();
}

void Scheduler::loop() {
    Lock lock(mutex_);
    while (!stopping_ || num_in_flight_ > 0 || !moves_.empty()) {
        const uint64_t seen = events_;
        if (!advance(lock)) sleep(lock, seen);
    }
    fail_all({NL_ERROR_CANCELLED, "engine freed"});
    wake_callers();
}

bool Scheduler::advance(Lock& lock) {
    if (undrawn_) {
        if (num_in_flight_ > 1) {
            collect_oldest(lock);
        } else {
            submit_draws(lock);
        }
        return true;
    }
    std::erase_if(queue_, [](const auto& request) { return request->finished; });
    end_overdue();
    wake_callers();
    const bool moved = !moves_.empty();
    make_moves(lock);
    auto most = std::min(static_cast<size_t>(executor_->max_in_flight()), kMostInFlight);
    // If the step in flight draws for nl_decode_step, the next rows of its sequences will be known when it ends. A step
    // submitted earlier could not contain them, so that each sequence would advance in every second step only.
    if (num_in_flight_ > 0 && steps_[oldest_].answers_callers) most = 1;
    if (num_in_flight_ < most && !stopping_ && !queue_.empty()) {
        if (num_in_flight_ == 0) gather(lock);
        if (submit_next(lock)) return true;
    }
    if (num_in_flight_ == 0) return moved;
    collect_oldest(lock);
    return true;
}

// True if a step was submitted, or if the attempt ended a request.
bool Scheduler::submit_next(Lock& lock) {
    Step& step = steps_[(oldest_ + num_in_flight_) % steps_.size()];
    step.clear();
    Result<void> outcome = without_exceptions([&]() -> Result<void> {
        step.set_limits(options_.vocab_size, options_.max_context);
        plan(step);
        if (!step.draws_wait()) step.add_draws();
        step.sampled.resize(step.num_outputs());
        return {};
    });
    if (outcome.ok() && step.empty()) return num_in_flight_ == 0 && fail_one_without_pages();
    finish_sending_down(lock);
    if (outcome.ok()) {
        wake_callers();  // those of calls that failed because there are no pages
        step.submitted = Clock::now();
        lock.unlock();
        outcome = send(step);
        lock.lock();
    }
    if (!outcome.ok()) {
        drop(step, outcome.error());
        return true;
    }
    pool_.table().forget_changes();
    ++num_in_flight_;
    undrawn_ = step.draws_wait();
    return true;
}

// Ends what has rows in a step that is not in flight after all.
void Scheduler::drop(Step& step, const Error& error) {
    for (const Slice& slice : step.slices()) --slice.sequence->steps_in_flight;
    for (const Slice& slice : step.slices()) fail(*slice.request, error);
    if (step.added_last) fail(*step.added_last, error);
    if (step.empty()) fail_all(error);  // not even a plan could be made
    step.clear();                       // lets go of the sequences
}

// The newest step's, when the step before it is committed.
void Scheduler::submit_draws(Lock& lock) {
    Step& step = newest();
    undrawn_ = false;
    Result<void> outcome = without_exceptions([&]() -> Result<void> {
        step.add_draws();
        return {};
    });
    lock.unlock();
    step.fill_masks();
    if (outcome.ok()) outcome = without_exceptions([&] { return change_logits(step); });
    // Where draws could not be made ready, the executor is told so by a batch that has none.
    if (!outcome.ok()) step.batch().sampling.clear();
    Result<void> submitted = without_exceptions([&] { return executor_->submit_draws(step.batch()); });
    lock.lock();
    if (outcome.ok()) outcome = std::move(submitted);
    if (!outcome.ok()) {
        --num_in_flight_;
        return drop(step, outcome.error());
    }
    for (const Step::Changed& row : step.changed()) {
        if (row.ends) row.request->cancelled = true;
        if (row.error) fail(*row.request, *row.error);
    }
}

// Has callers change the logits of their rows. Without the mutex, since they may take their time.
Result<void> Scheduler::change_logits(Step& step) {
    if (step.changed().empty()) return {};
    std::vector<float> logits(static_cast<size_t>(options_.vocab_size));
    for (Step::Changed& row : step.changed()) {
        NL_TRY(executor_->read_undrawn(row.output_row, logits));
        const Result<bool> goes_on = row.request->generation->change_logits(row.tokens, logits);
        if (!goes_on.ok()) {
            row.error = goes_on.error();
            continue;
        }
        row.ends = !*goes_on;
        NL_TRY(executor_->write_undrawn(row.output_row, logits));
    }
    return {};
}

Result<void> Scheduler::send(Step& step) {
    return without_exceptions([&]() -> Result<void> {
        if (!step.copies().empty()) NL_TRY(executor_->copy_pages(step.copies()));
        return executor_->submit(step.batch());
    });
}

void Scheduler::collect_oldest(Lock& lock) {
    Step& step = steps_[oldest_];
    lock.unlock();
    const Result<void> outcome = without_exceptions([&]() -> Result<void> {
        NL_TRY(executor_->collect(step.sampled));
        for (const Slice& slice : step.slices()) {
            const Request& request = *slice.request;
            for (int32_t i = 0; i < slice.num_states; ++i) {
                NL_TRY(executor_->read_state(slice.first_state + i, request.states->next()));
                request.states->take();
            }
            if (slice.output_index < 0 || request.logits.empty()) continue;
            NL_TRY(executor_->read_logits(slice.output_index, request.logits));
        }
        step.surprises.assign(step.sampled.size(), 0);
        if (step.wants_surprises) NL_TRY(executor_->read_surprises(step.surprises));
        step.logprobs.resize(step.num_logprobs);
        if (step.num_logprobs > 0) NL_TRY(executor_->read_logprobs(step.logprobs));
        if (step.batch().probes.empty()) return {};
        step.token_weights.resize(probed_tokens(step.batch()));
        NL_TRY(executor_->read_token_weights(step.token_weights));
        return {};
    });
    const auto now = Clock::now();
    lock.lock();
    oldest_ = (oldest_ + 1) % steps_.size();
    --num_in_flight_;
    const std::chrono::duration<double, std::micro> took = now - std::max(step.submitted, last_collected_);
    last_collected_ = now;
    if (outcome.ok()) {
        pacer_.ran(step.num_rows(), step.prefill_rows, took.count());
        metrics_.step_seconds.add(took.count() * 1e-6);
        metrics_.step_rows.add(step.num_rows());
        metrics_.prefill_rows += step.prefill_rows;
        metrics_.decode_rows += step.num_rows() - step.prefill_rows;
    }
    commit(step, outcome);
}

// Threads that each step a cache of their own call again one after the other. A step that began with the first of them
// would leave all others to the step after it, so this waits for them.
void Scheduler::gather(Lock& lock) {
    if (answered_ == 0) return;
    const auto quiet = to_duration(std::clamp(pacer_.last_step() * kQuietShare, kQuietLeast, kQuietMost));
    const auto last = last_collected_ + std::max(quiet, to_duration(pacer_.last_step()));
    gathered_at_ = answered_before_ + static_cast<uint64_t>(answered_);
    const auto all_came = [this] { return stopping_ || arrivals_ >= gathered_at_; };
    bool coming = true;
    while (coming && !all_came()) {
        const uint64_t before = arrivals_;
        work_.wait_until(lock, std::min(Clock::now() + quiet, last), all_came);
        coming = arrivals_ > before && Clock::now() < last;
    }
    gathered_at_ = 0;
    answered_ = 0;
}

// Waits until events_ differs from `seen`, or for the first deadline. With requests in the queue it also looks again
// after a while, since C libraries have lost wake-ups (glibc before 2.41: its bug 25847).
void Scheduler::sleep(Lock& lock, uint64_t seen) {
    wake_callers();
    constexpr auto kLookAgain = std::chrono::milliseconds(100);
    std::optional<Clock::time_point> first;
    if (!queue_.empty()) first = Clock::now() + kLookAgain;
    for (const auto& request : queue_)
        if (request->deadline && (!first || *request->deadline < *first)) first = request->deadline;
    const auto happened = [this, seen] { return events_ != seen; };
    if (first) {
        work_.wait_until(lock, *first, happened);
    } else {
        work_.wait(lock, happened);
    }
}

// ---- Called with the mutex held, from any thread ------------------------------------------------------------

Scheduler::Report Scheduler::report() const {
    Report report{metrics_};
    for (const auto& request : queue_) {
        if (request->finished || request->is_ahead()) continue;
        ++(request->started ? report.running : report.waiting);
    }
    return report;
}

Result<void> Scheduler::run(Lock& lock, const std::shared_ptr<Call>& call) {
    if (call->requests.empty()) {
        lock.unlock();
        return {};
    }
    Result<void> queued = enqueue(call->requests);
    lock.unlock();
    if (!queued.ok()) return queued;
    call->woken.acquire();
    for (auto& next : call->wakes) {
        if (next) next->woken.release();
        next.reset();
    }
    if (call->error) return std::move(*call->error);
    return {};
}

Result<void> Scheduler::start(std::shared_ptr<Request> request) {
    return enqueue({&request, 1});
}

void Scheduler::cancel(Request& request) {
    if (request.is_ahead()) return;  // nobody asked for it
    request.cancelled = true;
    wake();
}

void Scheduler::cancel_all(const Tenant* of) {
    for (const auto& request : queue_)
        if (of == nullptr || request->sequence->context.tenant.get() == of) request->cancelled = !request->is_ahead();
    wake();
}

Result<void> Scheduler::wait_idle(Lock& lock, std::span<ResidentSequence* const> sequences) {
    for (ResidentSequence* sequence : sequences) sequence->draws_in_a_row = 0;
    do {
        NL_TRY(wait_for_calls(lock, sequences));
    } while (!end_ahead(lock, sequences));
    return {};
}

Result<void> Scheduler::wait_for_calls(Lock& lock, std::span<ResidentSequence* const> sequences) {
    while (true) {
        bool idle = true;
        for (size_t i = 0; i < sequences.size(); ++i) {
            const auto& request = sequences[i]->request;
            if (request == nullptr || request->is_ahead()) continue;
            idle = false;
            if (request->draw != Draw::generate) continue;
            const std::string which = sequences.size() > 1 ? "caches[" + std::to_string(i) + "]" : "the cache";
            Error busy =
                nanolith::fail(NL_ERROR_BUSY, which,
                               " is generating: expected one that is not; wait for the generation's end or cancel it");
            return sequences.size() > 1 ? std::move(busy).with(NL_DETAIL_INDEX, static_cast<int64_t>(i)) : busy;
        }
        if (idle) return {};
        wait_for_an_end(lock);
    }
}

void Scheduler::wait_for_an_end(Lock& lock) {
    ++waiting_for_idle_;
    idle_.wait(lock);
    --waiting_for_idle_;
}

}  // namespace nanolith
