// The loading warp of the wide attention kernel: it starts the copies (TMA) of K and V from their pages.
#pragma once

#include <cstdint>

#include "attention/wide/shared.cuh"
#include "device/dependent.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda::wide {

// Each lane copies one box of a tile: of min(page_size, 64) tokens, whole heads where head_dim is a multiple of 64,
// else 64 values of each head.
template <typename V>
class Loader {
  public:
    using T = typename V::T;

    __device__ Loader(Shared<V>& shared, const Parameters<T>& parameters, const CUtensorMap* map)
        : shared_(shared), p_(parameters), map_(map), lane_(static_cast<int>(threadIdx.x) % 32) {
        const int page_size = parameters.shape.page_size;
        box_shift_ = min(parameters.page_shift, 6);
        box_tokens_ = 1 << box_shift_;
        box_ = lane_ / V::kCopies * box_tokens_;  // its first token in the tile
        block_ = lane_ % V::kCopies;
        value_offset_ = parameters.shape.num_kv_heads * page_size;
    }

    __device__ void run() {
        RingPosition<kSteps> position;
        bool ahead = false;  // the next step is published and has tiles, and its first page of the lane is ahead_page
        int ahead_page = 0;
        for (;;) {
            barrier_wait(&shared_.step_full[position.stage], position.parity, "a step (loader)");
            const Step& shared_step = shared_.steps[position.stage];
            const int first_page = shared_step.first_page;
            const int kv_head = shared_step.vectors.kv_head;
            const int tiles = shared_step.tiles;
            const int end = shared_step.end_token;
            const bool last = shared_step.last;
            int token = shared_step.token;
            barrier_arrive(&shared_.step_empty[position.stage]);
            position.advance();
            if (tiles == 0) break;
            const int32_t* const pages = p_.a.work.page_table + first_page;
            int page = ahead ? ahead_page : page_of(pages, token, end);
            wait_once();
            ahead = false;
            for (int tile = 0; tile < tiles; ++tile, token += V::kTile) {
                const int next_page = page_of(pages, token + V::kTile, end);
                Boxes boxes;
                boxes.row = ((page * 2) * p_.shape.num_kv_heads + kv_head) * p_.shape.page_size +
                            ((token + box_) & (p_.shape.page_size - 1));
                boxes.mine = box_ < V::kTile && token + box_ < end;
                const int boxes_here = (min(V::kTile, end - token) + box_tokens_ - 1) >> box_shift_;
                boxes.bytes = (boxes_here << box_shift_) * 128 * V::kBlocks;
                load(shared_.keys[key_.stage], &shared_.key_full[key_.stage], &shared_.key_empty[key_.stage],
                     key_.parity, boxes, 0);
                key_.advance();
                if (tile == tiles - 1) ahead = look_ahead(position, ahead_page);
                if (values_pending_) load_values();
                values_ = boxes;
                values_pending_ = true;
                page = next_page;
            }
            // The next item's first keys are loaded before these values, unless that item is not known yet.
            if (last && values_pending_ && !ahead) load_values();
        }
    }

  private:
    // Waits until the launches before this one have ended, because they write to the pages. Then lets the next launch
    // begin, on multiprocessors that this kernel has left. The order matters: the next launch, that of the narrow
    // items, reads the same pages without waiting. It begins when each block of this kernel has waited here, or has
    // ended.
    __device__ void wait_once() {
        if (waited_) return;
        wait_for_launches_before();
        let_next_launch_begin();
        waited_ = true;
    }

    // A tile's copies.
    struct Boxes {
        int row;    // of the pool (map_pages) where the lane's box begins
        int bytes;  // that all lanes copy
        bool mine;  // the lane has a box
    };

    // Looks up the lane's first page of the next step. False: that step is not published yet, or has no tiles.
    __device__ bool look_ahead(const RingPosition<kSteps>& position, int& page) const {
        if (!__all_sync(~0U, barrier_try_wait(&shared_.step_full[position.stage], position.parity))) return false;
        const Step& step = shared_.steps[position.stage];
        if (step.tiles == 0) return false;
        page = page_of(p_.a.work.page_table + step.first_page, step.token, step.end_token);
        return true;
    }

    // The page of the lane's box of the tile at `token`.
    __device__ int page_of(const int32_t* pages, int token, int end) const {
        const int mine = token + box_;
        return mine < end && box_ < V::kTile ? pages[mine >> p_.page_shift] : 0;
    }

    __device__ void load_values() {
        load(shared_.values[value_.stage], &shared_.value_full[value_.stage], &shared_.value_empty[value_.stage],
             value_.parity, values_, value_offset_);
        value_.advance();
        values_pending_ = false;
    }

    __device__ void load(std::byte* to, uint64_t* full, uint64_t* empty, uint32_t parity, const Boxes& boxes,
                         int offset) {
        barrier_wait(empty, parity ^ 1U, offset == 0 ? "empty keys" : "empty values");
        if (lane_ == 0) barrier_arrive_expect(full, static_cast<uint32_t>(boxes.bytes));
        __syncwarp();
        if (!boxes.mine) return;
        std::byte* const box = to + block_ * V::kBlockBytes + box_ / 8 * V::kOctetBytes;
        if constexpr (V::kCluster == 1) {
            tma_load_4d(map_, box, full, block_ * 64, (boxes.row + offset) / 8);
        } else if (lane_ % V::kCluster == cluster_rank<V>()) {
            tma_load_4d_to_all<V::kCluster>(map_, box, full, block_ * 64, (boxes.row + offset) / 8);
        }
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    const CUtensorMap* map_;
    int lane_;
    int box_shift_;
    int box_tokens_;
    int box_;
    int block_;
    int value_offset_;
    bool waited_ = false;          // for the launches before this one
    bool values_pending_ = false;  // the copies of the previous tile's values are not started yet
    Boxes values_{};
    RingPosition<V::kStages> key_;
    RingPosition<V::kStages> value_;
};

}  // namespace nanolith::cuda::wide
