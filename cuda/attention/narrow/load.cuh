// The loading warps of the narrow kernel: they start the copies (TMA) of tiles of K and V from their pages to shared
// memory, in the order of the block's items, as stages of the ring become empty.
#pragma once

#include <algorithm>

#include "attention/narrow/shared.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda::narrow {

// Tile t of the block is for pair t % kPairs of the consumers. One warp loads K (tensor 0) and one V (tensor 1),
// because the instructions that a warp needs to start a copy bound how fast a block reads at its beginning. One lane
// starts a copy, which is of min(page_size, kTokens) tokens.
template <typename V>
class Loader {
  public:
    __device__ Loader(Shared<V>& shared, const Parameters<V>& p, const CUtensorMap* map, int kv_head, int tensor)
        : shared_(shared), p_(p), map_(map), tensor_(tensor) {
        const int octets = p.shape.page_size / 8;
        box_shift_ = min(p.page_shift, V::kTokens == 64 ? 6 : 5);
        page_octets_ = 2 * p.shape.num_kv_heads * octets;
        first_octet_ = (tensor * p.shape.num_kv_heads + kv_head) * octets;
    }

    __device__ void run(const ItemWords& first) {
        for_each_span(p_.a.work, first, [&](const ItemWords& words, const Span& span, int index, bool, bool) {
            load_span(span, index == 0 ? words.page() : find_page(span, span.first_token));
        });
    }

  private:
    // Tiles whose copies are in flight at once, 64 KiB of pages. More would not load sooner, and would delay all other
    // reads.
    static constexpr int kMaxInFlight =
        std::max(4, 32768 / (V::kTokens * V::kDim * static_cast<int>(sizeof(typename V::P))));
    static constexpr int kBatch = 16 * kPageTokens;  // tokens whose pages a warp looks up at once

    // In lane i, the page of tokens [token + 16 i, token + 16 i + 16).
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
            const int octet = page * page_octets_ + first_octet_ + (mine & (p_.shape.page_size - 1)) / 8;
            const int tokens = min(span.end_token - batch, kBatch);
#pragma unroll 1
            for (int token = 0; token < tokens; token += V::kTokens) load_tile(octet, token, tokens - token);
            page = next;
        }
    }

    // Loads the tile at `token` of a batch. `octet`: in lane i, the octet of the pool's rows (map_pages) where the
    // batch's tokens [16 i, 16 i + 16) begin. `left`: tokens from there to the end of the batch.
    __device__ __forceinline__ void load_tile(int octet, int token, int left) {
        const int boxes = (min(left, V::kTokens) + (1 << box_shift_) - 1) >> box_shift_;
        uint64_t* const full = &shared_.full[tile_.stage];
        std::byte* const tensor = shared_.tiles[tile_.stage] + tensor_ * V::kTensorBytes;
        barrier_wait(&shared_.empty[tile_.stage], tile_.parity ^ 1U, "an empty stage for a tile");
        if (in_flight_ < kMaxInFlight) {
            ++in_flight_;
        } else {
            barrier_wait(&shared_.full[oldest_copy_.stage], oldest_copy_.parity, "the oldest copy");
            oldest_copy_.advance();
        }
        if (lane_index() == 0) {
            barrier_arrive_expect(full, static_cast<uint32_t>((boxes << box_shift_) * kRowBytes * V::kBoxes));
        }
#pragma unroll 1
        for (int box = 0; box < boxes; ++box) {
            const int at = box << box_shift_;
            copy(tensor, at, full, __shfl_sync(kAllLanes, octet, (token + at) / kPageTokens));
        }
        tile_.advance();
    }

    // Copies a box to the tile's tokens from `token` on.
    __device__ __forceinline__ void copy(std::byte* tensor, int token, uint64_t* full, int octet) {
        if (lane_index() == 0) {
            if constexpr (V::kWhole) {
                tma_load_4d(map_, tensor + token * kRowBytes * V::kBoxes, full, 0, octet);
            } else {
#pragma unroll
                for (int b = 0; b < V::kBoxes; ++b) {
                    tma_load_4d(map_, tensor + (b * V::kTokens + token) * kRowBytes, full, b * V::kBoxDims, octet);
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
    int page_octets_;  // octets of rows in a page
    int first_octet_;  // in a page: where the KV head's keys or values begin
    int in_flight_ = 0;
    RingPosition<V::kTiles> tile_;
    RingPosition<V::kTiles> oldest_copy_;  // the oldest tile that may still be in flight
};

}  // namespace nanolith::cuda::narrow
