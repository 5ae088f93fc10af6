// The step loop: the one thread that uses the device. Calls on any thread put requests for sequences into its queue. A
// step has one row of every conversation that can continue, and slices of the waiting prefills, as many rows as the
// time for a step allows. A step is planned, its pages are reserved, it is submitted, and later collected and
// committed. While the device computes step k, step k+1 is planned and submitted: the token of a generation's row may
// be "what output row j of the previous step draws". If that turns out to end the generation, the row computed too much
// is dropped. Where a draw of step k+1 depends on that token otherwise (penalties, Mirostat, a constraint), the draws
// of step k+1 are submitted by themselves, when step k is committed: the device computes the logits meanwhile.
//
// One mutex, the engine's, guards the queue, the sequences, the page pool and the chunk store. It is not held while a
// step is submitted or waited for.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend/executor.h"
#include "engine/loop_metrics.h"
#include "engine/pacer.h"
#include "engine/page_move.h"
#include "engine/step.h"
#include "kv/blend_store.h"
#include "kv/chunk_store.h"
#include "store/host_tier.h"

namespace nanolith {

struct SchedulerOptions {
    int32_t page_size = 64;
    int32_t max_rows = 2048;        // most rows of a step
    int32_t max_output_rows = 256;  // most rows of a step that draw a token
    int32_t max_kept_logits = 8;    // most of these whose logits are read
    int32_t max_context = 0;
    int32_t vocab_size = 0;
    bool probes = true;  // the model has layers that a probe adds up
    // Conversations share what they recompute of the same chunks in the same order. What a token's logits are depends
    // then on what others have asked before.
    bool keeps_blends = true;
    double step_ms = 0;  // see Pacer
    int64_t queue_limit = 4096;
};

class Scheduler {
  public:
    using Lock = std::unique_lock<std::mutex>;

    // `mutex`, `pool`, `store` and `blends` belong to the engine and outlive the scheduler.
    Scheduler(std::unique_ptr<Executor> executor, const SchedulerOptions& options, std::mutex& mutex, PagePool& pool,
              ChunkStore& store, BlendStore& blends);
    ~Scheduler();
    // Ends the step loop and the requests that remain; no call may be waiting. Without the mutex.
    void stop();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Everything below is called with the mutex held.

    // Puts the call's requests into the queue and returns when all of them have ended; it waits without the mutex. If
    // they fail (BUSY where the queue is full), their sequences are as at their latest commit.
    Result<void> run(Lock& lock, const std::shared_ptr<Call>& call);
    // Puts a generation's request in the queue.
    Result<void> start(std::shared_ptr<Request> request);
    // Ends a request with CANCELLED at the next step's boundary.
    void cancel(Request& request);
    void cancel_all(const Tenant* of);  // null: of everybody
    // To be called when something changed that a request may wait for: a reader made room in its generation.
    void wake() {
        ++events_;
        work_.notify_one();
    }
    // Waits until no request is under way on any of the sequences, not even one that computes ahead. BUSY if one of
    // them is a generation.
    Result<void> wait_idle(Lock& lock, std::span<ResidentSequence* const> sequences);
    // The same for a call that draws the sequences' next tokens: it may take over requests that compute ahead.
    Result<void> wait_for_calls(Lock& lock, std::span<ResidentSequence* const> sequences);
    // Appends `count` pages to a list that no sequence has, as a call's are reserved. OUT_OF_PAGES.
    Result<void> take_pages(PageList& list, int32_t count);
    // Stores the pages that the sequence's blend has recomputed, for other conversations with the same chunks, where
    // they may be shared.
    void keep_blend(ResidentSequence& sequence);
    // Puts a copy of pages in the queue; it is made between two steps.
    void start(std::shared_ptr<PageMove> move);
    // Chunks that are evicted from now on go there. It outlives the scheduler's steps.
    void set_host_tier(HostTier* tier) { host_tier_ = tier; }
    // What was counted so far, and the requests for answers or prefills that wait for their first step and that do not.
    struct Report {
        LoopMetrics counted;
        int64_t waiting = 0, running = 0;
    };
    [[nodiscard]] Report report() const;
    // The executor's, for the moves. Without the mutex.
    Result<HostMemory> allocate_host(size_t bytes) { return executor_->allocate_host(bytes); }

  private:
    // ---- The loop
    void loop();
    bool advance(Lock& lock);  // false: nothing can be done now
    bool submit_next(Lock& lock);
    void submit_draws(Lock& lock);
    Result<void> change_logits(Step& step);
    void collect_oldest(Lock& lock);
    void make_moves(Lock& lock);
    Result<void> copy(const PageMove& move);
    void send_down(const Chunk& chunk) noexcept;
    void finish_sending_down(Lock& lock);
    void gather(Lock& lock);
    void sleep(Lock& lock, uint64_t seen);
    Result<void> send(Step& step);
    void drop(Step& step, const Error& error);
    [[nodiscard]] Step& newest() { return steps_[(oldest_ + num_in_flight_ - 1) % steps_.size()]; }

    // ---- Planning (plan.cpp)
    void plan(Step& step);
    void plan_conversations(Step& step);
    void plan_prefills(Step& step);
    [[nodiscard]] int32_t rows_left(const Request& request) const;
    [[nodiscard]] bool may_draw(const Request& request) const;
    [[nodiscard]] int32_t most_probe_rows() const;
    void begin_blends(Step& step);
    bool add_blend_rows(Step& step, const std::shared_ptr<Request>& request, int32_t rows);
    bool add_probe(Step& step, const std::shared_ptr<Request>& request);
    void no_pages_for(Request& request, const Error& error);
    bool add_rows(Step& step, const std::shared_ptr<Request>& request, int32_t rows);
    static void begin(Request& request);
    Result<void> take_pages(Step& step, Request& request, int32_t rows);
    bool fail_one_without_pages();
    Result<void> make_room(int32_t pages);

    // ---- Ends of requests (commit.cpp)
    Result<void> make_place(std::span<const std::shared_ptr<Request>> requests);
    Result<void> enqueue(std::span<std::shared_ptr<Request>> requests);
    void insert(const std::shared_ptr<Request>& request);
    void take_known_token(Request& request);
    void end_overdue();
    void commit(Step& step, const Result<void>& outcome);
    void commit_slice(const Slice& slice, const Step& step);
    void choose_blend(const Slice& slice, const Step& step);
    void end_blend_rows(Request& request, int32_t rows);
    void fail_without_token(Request& request);
    void fail_without_state(Request& request);
    static bool take_scores(const Slice& slice, const Step& step);
    void drew_or_failed(Request& request, const DrawnToken& drawn, std::span<const TokenLogprob> logprobs);
    void drew(Request& request, const DrawnToken& drawn, std::span<const TokenLogprob> logprobs);
    int32_t jump_ahead(Request& request);
    void finish_call(Call& call);
    void finish(Request& request, bool keep) noexcept;
    void end(Generation& generation, int32_t reason, const Error* error = nullptr) noexcept;
    void wake_callers() noexcept;
    void fail(Request& request, const Error& error) noexcept;
    void fail_call(Call& call, const Error& error) noexcept;
    void fail_all(const Error& error) noexcept;

    // ---- Rows computed before they are asked for (ahead.cpp)
    bool go_ahead(const std::shared_ptr<ResidentSequence>& sequence) noexcept;
    static bool take_over(std::shared_ptr<Request>& request);
    bool end_ahead(Lock& lock, std::span<ResidentSequence* const> sequences);
    void wait_for_an_end(Lock& lock);

    std::unique_ptr<Executor> executor_;
    const SchedulerOptions options_;
    std::mutex& mutex_;
    PagePool& pool_;
    ChunkStore& store_;
    BlendStore& blends_;
    Pacer pacer_;
    LoopMetrics metrics_;
    std::optional<Error> no_pages_;  // why the latest generation to ask for pages got none

    std::condition_variable work_;
    std::condition_variable idle_;  // a sequence has no request any more
    int32_t waiting_for_idle_ = 0;
    std::vector<std::shared_ptr<Request>> queue_;  // under way, by priority and then in order of arrival
    std::deque<std::shared_ptr<PageMove>> moves_;
    // Pages of evicted chunks, to be copied before a step or a move writes to them.
    struct Descent {
        PageMove move;
        std::shared_ptr<HostTier::Entry> entry;
    };
    std::vector<std::unique_ptr<Descent>> descents_;
    HostTier* host_tier_ = nullptr;
    std::vector<std::shared_ptr<Call>> ended_calls_;  // calls that have ended and whose callers are not woken yet
    uint64_t arrivals_ = 0;                           // calls and generations that ever added rows to the queue
    uint64_t events_ = 0;                             // changes that the loop may have to react to, counted
    uint64_t gathered_at_ = 0;                        // arrivals that the loop waits for; 0: it does not gather
    bool stopping_ = false;

    // Of the loop's thread.
    static constexpr size_t kMostInFlight = 2;
    std::array<Step, kMostInFlight + 1> steps_;
    size_t oldest_ = 0;  // index in steps_ of the oldest step in flight, if there is one
    size_t num_in_flight_ = 0;
    bool undrawn_ = false;  // the newest of them waits for its draws (Step::draws_wait)
    int32_t answered_ = 0;  // callers who got a token in the latest commit and whose next row is not computed ahead
    uint64_t answered_before_ = 0;  // arrivals at that commit
    Clock::time_point last_collected_{};

    std::thread thread_;  // last member, so that it starts when all others exist
};

}  // namespace nanolith
