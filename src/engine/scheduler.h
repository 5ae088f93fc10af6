// The one thread that owns the device. Any thread hands it jobs and waits; each step it forms one batch out
// of all jobs that are waiting: those with one row first (running conversations), then slices of prefills in
// the order of their arrival, so that a long prefill never stalls a conversation.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "engine/batch_builder.h"
#include "engine/job.h"

namespace nanolith {

class Scheduler {
  public:
    Scheduler(std::unique_ptr<Executor> executor, int32_t page_size, int32_t max_rows);
    ~Scheduler();  // no call may be waiting

    // Computes the jobs and returns when all of them are finished, with the first error of any. Thread-safe.
    Result<void> run(std::span<Job> jobs);

  private:
    void loop();
    void form_batch();
    Result<void> step();
    void finish_step(const Result<void>& outcome);
    void fail_all(const Error& error) noexcept;

    std::unique_ptr<Executor> executor_;
    BatchBuilder builder_;
    std::vector<int32_t> sampled_;

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable done_;
    std::vector<Job*> queue_;  // unfinished jobs, in order of arrival
    bool stopping_ = false;
    std::thread thread_;  // last, so that it starts when all else is there
};

}  // namespace nanolith
