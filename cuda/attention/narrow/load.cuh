// The loading warps of the narrow kernel: they have the copy engine bring tiles of K and V from their pages, in the
// order of the block's items, as fast as places for them become free.
#pragma once

#include <algorithm>

#include "attention/narrow/shared.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda::narrow {

// Tile t of the block goes to consumers' pair t % kPairs. One warp brings K (tensor 0), one V (1): what a copy costs a
// warp in instructions one after the other bounds how fast a block reads at its beginning. A copy takes
// min(page_size, kTokens) tokens; one lane starts it.
template <typename V>
class Loader {
  public:
    __device__ Loader(Shared<V>& shared, const Parameters<V>& p, const CUtensorMap* map, int kv_head, int tensor)
        : shared_(shared), p_(p), map_(map), tensor_(tensor) {
        const int eights = p.shape.page_size / 8;
        box_shift_ = min(p.page_shift, V::kTokens == 64 ? 6 : 5);
        page_eights_ = 2 * p.shape.num_kv_heads * eights;
        first_eight_ = (tensor * p.shape.num_kv_heads + kv_head) * eights;
    }

    __device__ void run(const ItemWords& first) {
        for_each_span(p_.a.work, first, [&](const ItemWords& words, const Span& span, int index, bool, bool) {
            load_span(span, index == 0 ? words.page() : find_page(span, span.first_token));
        });
    }

  private:
    // Tiles that are asked for at once, 64 KiB of pages. More would not come sooner, but all other reads would come
    // later.
    static constexpr int kUnderWay =
        std::max(4, 32768 / (V::kTokens * V::kDim * static_cast<int>(sizeof(typename V::P))));
    static constexpr int kBatch = 16 * kPageTokens;  // tokens whose pages are looked up at once

    // Lane i's: that of the 16 tokens number i behind `token`.
    __device__ int find_page(const Span& span, int token) const {
        const int mine = token + lane_index() * kPageTokens;
        if (mine >= min(span.end_token, token + kBatch)) return 0;
        return __ldg(p_.a.work.page_table + span.first_page + (mine >> p_.page_shift));
    }

    __device__ __forceinline__ void load_span(const Span& span, int page) {
#pragma unroll 1
        for (int batch = span.first_token; batch < span.end_token; batch += kBatch) {
            const int next = find_page(span, batch + kBatch);
            const int mine = batch + lane_index() * kPageTokens;
            const int eight = page * page_eights_ + first_eight_ + (mine & (p_.shape.page_size - 1)) / 8;
            const int tokens = min(span.end_token - batch, kBatch);
#pragma unroll 1
            for (int token = 0; token < tokens; token += V::kTokens) load_tile(eight, token, tokens - token);
            page = next;
        }
    }

    // The tile at `token` of the batch, of whose 16 tokens number i lane i holds the eight of rows where they begin.
    __device__ __forceinline__ void load_tile(int eight, int token, int left) {
        const int boxes = (min(left, V::kTokens) + (1 << box_shift_) - 1) >> box_shift_;
        uint64_t* const full = &shared_.full[place_.stage];
        std::byte* const tensor = shared_.tiles[place_.stage] + tensor_ * V::kTensorBytes;
        barrier_wait(&shared_.empty[place_.stage], place_.parity ^ 1U, "a place for a tile");
        if (asked_ < kUnderWay) {
            ++asked_;
        } else {
            barrier_wait(&shared_.full[oldest_.stage], oldest_.parity, "the oldest tile");
            oldest_.advance();
        }
        if (lane_index() == 0) {
            barrier_arrive_expect(full, static_cast<uint32_t>((boxes << box_shift_) * kRowBytes * V::kBoxes));
        }
#pragma unroll 1
        for (int box = 0; box < boxes; ++box) {
            const int at = box << box_shift_;
            copy(tensor, at, full, __shfl_sync(kAllLanes, eight, (token + at) / kPageTokens));
        }
        place_.advance();
    }

    // A box to the tile's tokens from `token` on.
    __device__ __forceinline__ void copy(std::byte* tensor, int token, uint64_t* full, int eight) {
        if (lane_index() == 0) {
            if constexpr (V::kWhole) {
                tma_load_4d(map_, tensor + token * kRowBytes * V::kBoxes, full, 0, eight);
            } else {
#pragma unroll
                for (int b = 0; b < V::kBoxes; ++b) {
                    tma_load_4d(map_, tensor + (b * V::kTokens + token) * kRowBytes, full, b * V::kBoxDims, eight);
                }
            }
        }
        __syncwarp();
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const CUtensorMap* map_;
    const int tensor_;
    int box_shift_;
    int page_eights_;  // of rows
    int first_eight_;  // of a page's keys or values of the KV head
    int asked_ = 0;
    RingPlace<V::kTiles> place_;
    RingPlace<V::kTiles> oldest_;  // that may not have come yet
};

}  // namespace nanolith::cuda::narrow
