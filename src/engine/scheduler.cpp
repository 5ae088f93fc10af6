#include "engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <new>

namespace nanolith {

Scheduler::Scheduler(std::unique_ptr<Executor> executor, int32_t page_size, int32_t max_rows)
    : executor_(std::move(executor)), builder_(page_size, max_rows), thread_([this] { loop(); }) {}

Scheduler::~Scheduler() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    thread_.join();
}

Result<void> Scheduler::run(std::span<Job> jobs) {
    std::unique_lock lock(mutex_);
    queue_.reserve(queue_.size() + jobs.size());
    for (Job& job : jobs) queue_.push_back(&job);
    work_.notify_one();
    done_.wait(lock, [&] { return std::ranges::all_of(jobs, &Job::finished); });
    for (Job& job : jobs)
        if (job.error) return std::move(*job.error);
    return {};
}

void Scheduler::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        // Host memory may run out anywhere in a step. Whoever waits must hear of it, and the thread must live on.
        try {
            form_batch();
            lock.unlock();
            const Result<void> outcome = step();
            lock.lock();
            finish_step(outcome);
        } catch (const std::exception& exception) {
            if (!lock.owns_lock()) lock.lock();
            const bool memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
            fail_all(
                Error{memory ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_INTERNAL, memory ? "out of memory" : "exception"});
        }
        done_.notify_all();
    }
}

void Scheduler::form_batch() {
    builder_.clear();
    bool room = true;
    for (Job* job : queue_)
        if (room && job->rows_left() == 1) room = builder_.add(*job);
    for (Job* job : queue_)
        if (room && job->rows_left() > 1) room = builder_.add(*job);
}

Result<void> Scheduler::step() {
    for (const Slice& slice : builder_.slices())
        if (slice.job->copy && slice.job->rows_done == 0) NL_TRY(executor_->copy_pages({&*slice.job->copy, 1}));
    sampled_.resize(builder_.batch().output_rows.size());
    NL_TRY(executor_->submit(builder_.batch()));
    NL_TRY(executor_->collect(sampled_));
    for (const Slice& slice : builder_.slices())
        if (slice.output_index >= 0 && !slice.job->logits.empty())
            NL_TRY(executor_->read_logits(slice.output_index, slice.job->logits));
    return {};
}

void Scheduler::finish_step(const Result<void>& outcome) {
    for (const Slice& slice : builder_.slices()) {
        Job& job = *slice.job;
        job.rows_done += slice.num_rows;
        if (!outcome.ok()) job.error = outcome.error();
        if (slice.output_index >= 0) job.token = sampled_[static_cast<size_t>(slice.output_index)];
        job.finished = job.error.has_value() || job.rows_left() == 0;
    }
    std::erase_if(queue_, [](const Job* job) { return job->finished; });
}

void Scheduler::fail_all(const Error& error) noexcept {
    for (Job* job : queue_) {
        job->error.emplace();  // an error without text where even that can't be had
        job->error->status = error.status;
        job->error->message.assign(error.message, 0, 15);  // short strings need no memory
        job->finished = true;
    }
    queue_.clear();
}

}  // namespace nanolith
