#include "block.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace cuda_host {

namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kLanes = 32;
// Bytes by which the stack of each lane of a warp begins lower in its memory than that of the lane before. The memory
// of stacks lies whole pages apart: without this, the frames of all lanes would compete for the same few lines of the
// CPU's cache, and each switch to another fiber would wait for memory.
constexpr size_t kStackStagger = 128;

enum class State : uint8_t { ready, at_warp, at_block, at_cluster, polling, done };

struct Fiber {
    std::vector<char> stack = std::vector<char>(kStackBytes);
    ucontext_t start{};
    jmp_buf resume{};
    bool started = false;
    unsigned arrivals = 0;  // at barriers of the cluster
};

// On a GPU dynamic shared memory begins at the same address in every block, so that blocks of a cluster that align a
// part of it have it at the same offset. Here it begins 16 bytes behind a multiple of this many bytes in every block.
constexpr size_t kSharedLine = 1024;

struct Warp {
    unsigned arrived = 0;
    unsigned exchanges = 0;  // the parity tells which half of `values` is in use
    const char* kind = nullptr;
    std::array<std::array<uint64_t, kLanes>, 2> values{};
};

// Everything about a block of the cluster that runs now.
struct Block {
    std::deque<Fiber> fibers;   // made once; they stay where they are
    std::vector<State> states;  // of the fibers, side by side, since the scheduler looks at all of them again and again
    std::vector<Warp> warps;
    std::vector<std::byte> shared;
    unsigned current = 0;
    unsigned live = 0;
    unsigned at_barrier = 0;
};

struct Cluster {
    std::array<Block, kMostBlocks> blocks;
    unsigned size = 1;
    unsigned rank = 0;  // of the block that runs
    const std::function<void()>* thread = nullptr;
    jmp_buf scheduler{};
    unsigned arrived = 0;   // threads at the barrier of the cluster
    unsigned barriers = 0;  // that are complete
    bool progress = false;  // of a thread, since the scheduler last looked

    [[nodiscard]] Block& running() { return blocks[rank]; }
    [[nodiscard]] unsigned live() const {
        unsigned all = 0;
        for (unsigned i = 0; i < size; ++i) all += blocks[i].live;
        return all;
    }
};

Cluster cluster;

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "cuda_host: block (%u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y,
                 cluster.running().current, what);
    std::abort();
}

void yield() {
    Block& block = cluster.running();
    if (_setjmp(block.fibers[block.current].resume) == 0) _longjmp(cluster.scheduler, 1);
}

void release_block_if_complete() {
    Block& block = cluster.running();
    if (block.live == 0 || block.at_barrier < block.live) return;
    block.at_barrier = 0;
    std::replace(block.states.begin(), block.states.end(), State::at_block, State::ready);
}

void release_cluster_if_complete() {
    if (cluster.arrived == 0 || cluster.arrived < cluster.live()) return;
    cluster.arrived = 0;
    ++cluster.barriers;
    for (unsigned i = 0; i < cluster.size; ++i) {
        std::vector<State>& states = cluster.blocks[i].states;
        std::replace(states.begin(), states.end(), State::at_cluster, State::ready);
    }
}

// Runs one thread after another, each when the scheduler resumes it.
void fiber_main() {
    while (true) {
        (*cluster.thread)();
        Block& block = cluster.running();
        block.states[block.current] = State::done;
        --block.live;
        release_block_if_complete();  // threads that have ended no longer count at barriers
        release_cluster_if_complete();
        yield();
    }
}

void resume(unsigned index) {
    Block& block = cluster.running();
    block.current = index;
    threadIdx = uint3{index, 0, 0};
    if (_setjmp(cluster.scheduler) != 0) return;
    Fiber& fiber = block.fibers[index];
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    setcontext(&fiber.start);
}

std::vector<unsigned> thread_order(unsigned count) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0U);
    const char* const text = std::getenv("NL_CUDA_HOST_ORDER");
    const unsigned seed = text == nullptr ? 0U : static_cast<unsigned>(std::atoi(text));
    if (seed == 1) std::reverse(order.begin(), order.end());
    if (seed > 1) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

void prepare(Block& block, unsigned threads, size_t shared_bytes) {
    while (block.fibers.size() < threads) {
        const size_t lane = block.fibers.size() % kLanes;
        Fiber& fiber = block.fibers.emplace_back();
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = fiber.stack.data();
        fiber.start.uc_stack.ss_size = fiber.stack.size() - lane * kStackStagger;
        makecontext(&fiber.start, fiber_main, 0);
    }
    block.warps.assign((threads + kLanes - 1) / kLanes, Warp());
    block.shared.assign(shared_bytes + 2 * kSharedLine, std::byte{0xff});
    block.live = threads;
    block.at_barrier = 0;
    block.states.assign(threads, State::ready);
    for (unsigned i = 0; i < threads; ++i) block.fibers[i].arrivals = 0;
}

// Runs 32 threads of the running block, whose numbers are at `order`, again and again until each of them has ended or
// waits for threads outside of these. Where threads run in order they are a warp.
void run_lanes(const unsigned* order) {
    const std::vector<State>& states = cluster.running().states;
    bool progress = true;
    for (bool first = true; progress; first = false) {
        progress = false;
        for (unsigned i = 0; i < kLanes; ++i) {
            const State state = states[order[i]];
            if (state != State::ready && !(first && state == State::polling)) continue;
            if (state == State::ready) progress = true;
            resume(order[i]);
        }
        cluster.progress |= progress;
    }
}

// From block (x, y) on.
void run_cluster(unsigned x, unsigned y, const std::vector<unsigned>& order, size_t shared_bytes) {
    cluster.arrived = 0;
    cluster.barriers = 0;
    for (unsigned rank = 0; rank < cluster.size; ++rank)
        prepare(cluster.blocks[rank], static_cast<unsigned>(order.size()), shared_bytes);
    while (cluster.live() > 0) {
        cluster.progress = false;
        for (cluster.rank = 0; cluster.rank < cluster.size; ++cluster.rank) {
            blockIdx = uint3{x + cluster.rank, y, 0};
            for (size_t first = 0; first < order.size(); first += kLanes) run_lanes(&order[first]);
        }
        cluster.rank = 0;
        if (!cluster.progress) die("waits for threads that never come (a barrier or an exchange in divergent code)");
    }
}

}  // namespace

void run_grid(dim3 grid, dim3 block_size, size_t shared_bytes, unsigned blocks_of_cluster,
              const std::function<void()>& thread) {
    if (block_size.x % kLanes != 0 || block_size.y != 1 || block_size.z != 1 || grid.z != 1) {
        die("expected blocks of whole warps in one dimension and a grid of at most two");
    }
    if (blocks_of_cluster < 1 || blocks_of_cluster > kMostBlocks || grid.x % blocks_of_cluster != 0) {
        die("expected clusters of at most 8 blocks that divide the grid");
    }
    cluster.size = blocks_of_cluster;
    cluster.thread = &thread;
    gridDim = grid;
    blockDim = block_size;
    const std::vector<unsigned> order = thread_order(block_size.x);
    for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; x += cluster.size) run_cluster(x, y, order, shared_bytes);
    }
}

std::byte* shared_memory() {
    Block& block = cluster.running();
    void* at = block.shared.data();
    size_t space = block.shared.size();
    return static_cast<std::byte*>(std::align(kSharedLine, 0, at, space)) + 16;
}

unsigned cluster_rank() {
    return cluster.rank;
}

unsigned cluster_index() {
    return blockIdx.x / cluster.size;
}

std::byte* in_block(const std::byte* shared, unsigned rank) {
    if (rank >= cluster.size) die("names a block that its cluster does not have");
    const std::ptrdiff_t offset = shared - shared_memory();
    const unsigned own = std::exchange(cluster.rank, rank);
    std::byte* const there = shared_memory() + offset;
    cluster.rank = own;
    return there;
}

void arrive_at_cluster() {
    Block& block = cluster.running();
    ++block.fibers[block.current].arrivals;
    ++cluster.arrived;
    release_cluster_if_complete();
}

void wait_for_cluster() {
    Block& block = cluster.running();
    if (cluster.barriers >= block.fibers[block.current].arrivals) return;
    block.states[block.current] = State::at_cluster;
    yield();
}

void synchronise_block() {
    Block& block = cluster.running();
    block.states[block.current] = State::at_block;
    ++block.at_barrier;
    release_block_if_complete();
    yield();
}

void wait_until(const std::function<bool()>& done) {
    Block& block = cluster.running();
    State& state = block.states[block.current];
    while (!done()) {
        state = State::polling;
        yield();
    }
    state = State::ready;
    cluster.progress = true;
}

const uint64_t* exchange(uint64_t value, const char* kind) {
    Block& block = cluster.running();
    const unsigned first = block.current / kLanes * kLanes;
    Warp& warp = block.warps[block.current / kLanes];
    const unsigned half = warp.exchanges % 2;
    if (warp.arrived > 0 && warp.kind != kind && std::strcmp(warp.kind, kind) != 0)
        die("lanes of a warp meet in different exchanges");
    warp.kind = kind;
    warp.values[half][block.current - first] = value;
    if (++warp.arrived < kLanes) {
        block.states[block.current] = State::at_warp;
        yield();
    } else {
        warp.arrived = 0;
        ++warp.exchanges;
        const auto begin = block.states.begin() + first;
        std::replace(begin, begin + kLanes, State::at_warp, State::ready);
    }
    return warp.values[half].data();
}

uint32_t ballot(bool bit) {
    const uint64_t* const lanes = exchange(bit ? 1 : 0, "ballot");
    uint32_t bits = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(lanes[lane]) << lane;
    return bits;
}

}  // namespace cuda_host
