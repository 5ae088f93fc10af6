// Loops over the backend's threads, and the scope in which oneDNN uses as many. One OpenMP team serves both.
#pragma once

#include <omp.h>

#include <cstdint>

namespace nanolith::cpu {

// Calls body(i, thread) for every i in [0, count), thread in [0, num_threads). body must not throw.
template <typename Body>
void parallel_for(int num_threads, int64_t count, const Body& body) {
    if (num_threads <= 1 || count <= 1) {
        for (int64_t i = 0; i < count; ++i) body(i, 0);
        return;
    }
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (int64_t i = 0; i < count; ++i) body(i, omp_get_thread_num());
}

// The same for items of uneven cost: threads take one item after the other.
template <typename Body>
void parallel_for_dynamic(int num_threads, int64_t count, const Body& body) {
    if (num_threads <= 1 || count <= 1) {
        for (int64_t i = 0; i < count; ++i) body(i, 0);
        return;
    }
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i) body(i, omp_get_thread_num());
}

// The threads that OpenMP gives a team of this thread's that asks for `num_threads`: fewer where the program limits
// them (OMP_THREAD_LIMIT, OMP_DYNAMIC) or calls from within a team of its own.
inline int team_size(int num_threads) {
    int size = 1;
    if (num_threads <= 1) return size;
#pragma omp parallel num_threads(num_threads)
#pragma omp master
    size = omp_get_num_threads();
    return size;
}

// While it lives, libraries that ask OpenMP on this thread (oneDNN) find `num_threads`, or as many as there can be:
// oneDNN counts on getting what it asks for, and leaves out work otherwise. Afterwards the calling program's own
// setting holds again.
class ThreadCountScope {
  public:
    explicit ThreadCountScope(int num_threads) : before_(omp_get_max_threads()) {
        omp_set_num_threads(team_size(num_threads));
    }
    ~ThreadCountScope() { omp_set_num_threads(before_); }
    ThreadCountScope(const ThreadCountScope&) = delete;
    ThreadCountScope& operator=(const ThreadCountScope&) = delete;

  private:
    int before_;
};

}  // namespace nanolith::cpu
