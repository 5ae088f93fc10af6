// A list of a few tokens in shared memory, in any order.
#pragma once

namespace nanolith::cuda {

// Tokens are added at the front or at the back, so that those of two kinds can be told apart.
template <int Capacity>
struct Candidates {
    float logit[Capacity];
    int token[Capacity];
    int front;  // the two may be above Capacity together: so many asked for a place, and some have none
    int back;

    // For one thread, between barriers.
    __device__ void clear() { front = back = 0; }
    // For each thread's own additions between two barriers.
    __device__ void add_front(float new_logit, int new_token) { put(atomicAdd(&front, 1), new_logit, new_token); }
    __device__ void add_back(float new_logit, int new_token) {
        put(Capacity - 1 - atomicAdd(&back, 1), new_logit, new_token);
    }
    [[nodiscard]] __device__ bool complete() const { return front + back <= Capacity; }
    // Whether place i has a token, of a complete list.
    [[nodiscard]] __device__ bool has(int i) const { return i < front || (i >= Capacity - back && i < Capacity); }

  private:
    __device__ void put(int at, float new_logit, int new_token) {
        if (at < 0 || at >= Capacity) return;
        logit[at] = new_logit;
        token[at] = new_token;
    }
};

}  // namespace nanolith::cuda
