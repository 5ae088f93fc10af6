// A CUDA thread block on one CPU thread: every CUDA thread is a fiber, which runs until it waits for the others.
// This executes kernels as C++ compiled them and so finds wrong indices, wrong arithmetic, missing barriers (the
// order of threads can be changed) and barriers that not all threads reach; it says nothing about speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

// What kernels read as built-in variables, for the fiber that runs now.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

namespace cuda_host {

// Runs `thread` for every thread of every block, one cluster of `cluster` blocks along the grid's x after the other;
// the blocks of a cluster run at the same time, so that kernels for them may have no static shared memory. Dynamic
// shared memory and uninitialised device memory are filled with 0xff, which reads as NaN. Ends the process with a
// message where threads wait for others that never come. NL_CUDA_HOST_ORDER: 0 runs the threads of a block in order
// (default), 1 backwards, another number shuffled by this seed.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, unsigned cluster, const std::function<void()>& thread);

// The dynamic shared memory of the block that runs now.
std::byte* shared_memory();

// Waits for all threads of the block.
void synchronise_block();

// Waits until another thread has made `done` true.
void wait_until(const std::function<bool()>& done);

// The number of the running block in its cluster, that of the cluster in the grid, and where block `rank` has what this
// one has at `shared`.
constexpr unsigned kMostBlocks = 8;  // of a cluster
unsigned cluster_rank();
unsigned cluster_index();
std::byte* in_block(const std::byte* shared, unsigned rank);
// The two halves of a barrier of the cluster's threads.
void arrive_at_cluster();
void wait_for_cluster();

// Waits for all lanes of the warp and gives their values, by lane, which stay until this lane's next exchange. `kind`
// tells exchanges apart: lanes that meet in different ones are an error.
const uint64_t* exchange(uint64_t value, const char* kind);
// All lanes' bits, lane 0 the lowest.
uint32_t ballot(bool bit);

}  // namespace cuda_host
