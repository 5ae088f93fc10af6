// Keeps oneDNN to the thread that calls it: our pool shares the work.
#pragma once

#include <cstdint>

namespace nanolith::cpu {

// Builds of oneDNN that share a call's work by OpenMP (Debian's) ask it, on the calling thread, for how many threads.
// The functions that set this are looked up, since a build may use GCC's or LLVM's runtime, or none.
class OnednnThreads {
  public:
    OnednnThreads();

    // While it lives, oneDNN uses the calling thread alone: no team is started, which would end the process where
    // there are no more threads. Afterwards the thread's own setting holds again. Throws std::bad_alloc where OpenMP
    // could not note the setting, for which it would end the process as well.
    class One {
      public:
        explicit One(const OnednnThreads& threads);
        ~One();
        One(const One&) = delete;
        One& operator=(const One&) = delete;

      private:
        const OnednnThreads& threads_;
        int before_ = 1;
    };

  private:
    int (*most_)() = nullptr;     // omp_get_max_threads, or null: there is no OpenMP
    void (*set_)(int) = nullptr;  // omp_set_num_threads
};

}  // namespace nanolith::cpu
