// The stages of a staged product (staged.cu) in a thread block's shared memory, and the thread that fills them.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "device/cluster.cuh"
#include "device/dynamic_shared.cuh"
#include "device/mbarrier.cuh"
#include "device/tma.cuh"
#include "linear/staged_division.h"

namespace nanolith::cuda {

// A stage in shared memory and the phase of its barriers; stages are filled and multiplied in turn.
struct StageOfRing {
    int index = 0;
    uint32_t parity = 0;

    __device__ void advance(int stages) {
        if (++index == stages) {
            index = 0;
            parity ^= 1U;
        }
    }
};

// A thread block's stages, each [lines][kRows][64 columns] of x and then [lines][weight rows of a strip][64 columns],
// and which steps of the columns go through them for each of its cluster's strips.
template <int kRows>
struct StagedBlock {
    const StagedDivision& division;
    std::byte* stages;
    uint64_t* full;   // [stages] the stage is there
    uint64_t* empty;  // [stages] all warps have multiplied it
    int strip;        // the cluster's first one; the others are each division.clusters further
    int first;        // steps [first, end)
    int end;

    __device__ explicit StagedBlock(const StagedDivision& of)
        : division(of),
          stages(dynamic_shared_1024()),
          full(reinterpret_cast<uint64_t*>(stages + of.stages * of.stage_bytes + kBehindStages)),
          empty(full + kMostStages),
          strip(of.first_strip + cluster_index()),
          first(of.splits == 1 ? 0 : min(cluster_rank() * of.steps_each, of.steps)),
          end(min(first + of.steps_each, of.steps)) {}

    [[nodiscard]] __device__ bool has_strips() const { return strip < division.end_strip; }
    [[nodiscard]] __device__ std::byte* x(int stage) const { return stages + stage * division.stage_bytes; }
    [[nodiscard]] __device__ std::byte* weights(int stage) const {
        return x(stage) + division.lines * (kRows * kStageLineBytes);
    }
};

// What the filling thread does. kTileOutputs: outputs of a tile.
template <int kRows, int kTileOutputs>
class StageFiller {
  public:
    __device__ StageFiller(const StagedBlock<kRows>& block, const CUtensorMap* weights, const CUtensorMap* x)
        : block_(block),
          weights_(weights),
          x_(x),
          strip_(block.first < block.end ? block.strip : block.division.end_strip),
          step_(block.first) {}

    // Initialises the barriers and starts to copy weights to all stages.
    __device__ void begin() {
#pragma unroll 1
        for (int i = 0; i < block_.division.stages; ++i) {
            barrier_init(block_.full + i, 1);
            barrier_init(block_.empty + i, kStagedWarps);
        }
        fence_barrier_init();
#pragma unroll 1
        while (begun_ < block_.division.stages && strip_ < block_.division.end_strip) {
            fetch_weights();
            advance();
            ++begun_;
        }
    }
    // Copies what belongs to them of x, and then everything else when its stage is free.
    __device__ void finish() {
        int step = block_.first;
#pragma unroll 1
        for (int i = 0; i < begun_; ++i) {
            fetch_x(step, i);
            if (++step == block_.end) step = block_.first;
        }
#pragma unroll 1
        while (strip_ < block_.division.end_strip) {
            barrier_wait(block_.empty + at_.index, at_.parity ^ 1U, "an empty stage");
            fetch_weights();
            fetch_x(step_, at_.index);
            advance();
        }
    }

  private:
    // The stage's bytes count on its barrier, whether they are in the tensors or, as zeros, outside.
    __device__ void fetch_weights() const {
        const StagedDivision& division = block_.division;
        barrier_arrive_expect(block_.full + at_.index, static_cast<uint32_t>(division.stage_bytes));
        tma_load_upper(weights_, block_.weights(at_.index), block_.full + at_.index,
                       strip_ * division.tiles * kTileOutputs, 0, step_ * division.lines);
    }
    __device__ void fetch_x(int step, int stage) const {
        tma_load_upper(x_, block_.x(stage), block_.full + stage, 0, 0, step * block_.division.lines);
    }
    __device__ void advance() {
        at_.advance(block_.division.stages);
        if (++step_ == block_.end) {
            step_ = block_.first;
            strip_ += block_.division.clusters;
        }
    }

    const StagedBlock<kRows>& block_;
    const CUtensorMap* weights_;
    const CUtensorMap* x_;
    int strip_;
    int step_;
    StageOfRing at_;
    int begun_ = 0;
};

}  // namespace nanolith::cuda
