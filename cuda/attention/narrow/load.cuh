// The loading warps of the narrow kernel: they start the copies (TMA) of tiles of K and V from their pages to shared
// memory, in the order of the block's items, as stages of the ring become empty.
#pragma once

#include <algorithm>

#include "attention/common/projected_head.cuh"
#include "attention/narrow/shared.cuh"
#include "device/dependent.cuh"
#include "device/tma.cuh"

namespace nanolith::cuda::narrow {

// Tiles whose copies are in flight at once, 64 KiB of pages. More would not load sooner, and would delay all other
// reads.
template <typename V>
constexpr int kMaxInFlight = std::max(4, 32768 / (V::kTokens * V::kDim * static_cast<int>(sizeof(typename V::P))));

// A box has 2^box_shift tokens: as many as a page or a tile, whichever is smaller.
template <typename V>
__device__ __forceinline__ int box_shift(const Parameters<V>& p) {
    return min(p.page_shift, V::kTokens == 64 ? 6 : 5);
}

// Which 8 rows of the pool (map_pages) begin with the key (tensor 0) or value (1) of the segment's token `token`, a
// multiple of 8 that lies in `page`.
template <typename V>
__device__ __forceinline__ int octet_of(const Parameters<V>& p, int page, int tensor, int kv_head, int token) {
    const int first = ((2 * page + tensor) * p.shape.num_kv_heads + kv_head) << (p.page_shift - 3);
    return first + ((token & (p.shape.page_size - 1)) >> 3);
}

// Starts the copy of the box at `octet` (octet_of) to a tile's K or V at `tensor`, whose tokens from `token` on it
// becomes. Its bytes count on the barrier `full`.
template <typename V>
__device__ __forceinline__ void copy_box(const CUtensorMap* map, std::byte* tensor, int token, uint64_t* full,
                                         int octet) {
    if constexpr (V::kWhole) {
        tma_load_4d(map, tensor + token * V::kTokenBytes, full, 0, octet);
    } else {
#pragma unroll
        for (int b = 0; b < V::kBoxes; ++b) {
            tma_load_4d(map, tensor + (b * V::kTokens + token) * kRowBytes, full, b * V::kBoxDims, octet);
        }
    }
}

// The first tiles of a block's first item, up to 64 KiB. One warp starts all copies of their keys and values together:
// each lane starts that of one box. The Loader, which continues behind these tiles, would need several times as many
// instructions before its first copy, and when a block begins it takes about 100 cycles to fetch 8 instructions.
template <typename V>
class FirstTiles {
  public:
    __device__ __forceinline__ FirstTiles(const Parameters<V>& p, const ItemWords& first) {
        const Span span = first.span();
        const int tokens = min(span.end_token - span.first_token, kMost * V::kTokens);
        // The Loader copies tiles that this step writes to, since it knows what to wait for.
        int limit = tokens;
        if (p.appends) {
            const unsigned fresh = static_cast<unsigned>(first.position() - span.base - span.first_token);
            if (fresh < static_cast<unsigned>(tokens)) limit = static_cast<int>(fresh);
        } else if (p.waits) {
            limit = min(limit, first.settled());
        }
        tokens_ = limit == tokens ? tokens : limit / V::kTokens * V::kTokens;
        first_token_ = span.first_token;
        if (first.num_spans() == 0) tokens_ = 0;
    }

    __device__ __forceinline__ int count() const { return (tokens_ + V::kTokens - 1) / V::kTokens; }

    // Starts the copies of these tiles. Called by all lanes of one warp, after the barriers `full` are initialised.
    __device__ __forceinline__ void start(Shared<V>& shared, const Parameters<V>& p, const CUtensorMap* map,
                                          int kv_head, const ItemWords& first) const {
        const int shift = box_shift(p);
        const int lane = lane_index();
        if (lane < 2 * count()) {
            const int tile = lane / 2;
            const int boxes = (min(tokens_ - tile * V::kTokens, V::kTokens) + (1 << shift) - 1) >> shift;
            barrier_arrive_expect(&shared.full[tile], static_cast<uint32_t>((boxes << shift) * V::kTokenBytes));
        }
        __syncwarp();
        const int tensor = lane / 16;
        const int token = lane % 16 << shift;
        const int page = first.page(token / kPageTokens % 16);
        if (token >= tokens_) return;
        const int octet = octet_of(p, page, tensor, kv_head, first_token_ + token);
        const int tile = token / V::kTokens;
        copy_box<V>(map, shared.tiles[tile] + tensor * V::kTensorBytes, token % V::kTokens, &shared.full[tile], octet);
    }

  private:
    static constexpr int kMost = std::min(kMaxInFlight<V>, 16 * kPageTokens / V::kTokens);

    int first_token_;
    int tokens_;  // of the first tiles
};

// Tile t of the block is for pair t % kPairs of the consumers. One warp loads K (tensor 0) and one V (tensor 1),
// because the instructions that a warp needs to start a copy bound how fast a block reads at its beginning. One lane
// starts a copy, which is of min(page_size, kTokens) tokens. Where the launch appends, the warp makes the key or value
// of an item's row and writes it to the page, and to the tile once the copies of the other tokens have ended.
template <typename V>
class Loader {
  public:
    __device__ Loader(Shared<V>& shared, const Parameters<V>& p, const CUtensorMap* map, int kv_head, int tensor)
        : shared_(shared), p_(p), map_(map), kv_head_(kv_head), tensor_(tensor) {
        box_shift_ = box_shift(p);
    }

    // Copies the tiles of the block's items, but for the first `started` ones, whose copies FirstTiles has started.
    __device__ void run(const ItemWords& first, int started) {
        started_ = started;
        // Where the launch appends, no other one writes to the pages.
        may_wait_ = p_.waits && !p_.appends;
        settled_end_ = first.span().first_token + first.settled();
        for_each_span(p_.a.work, first, [&](const ItemWords& words, const Span& span, int index, bool, bool) {
            row_ = words.row();
            fresh_ = p_.appends ? words.position() - span.base : -1;
            load_span(span, index == 0 ? words.page() : find_page(span, span.first_token));
            wait_once();  // settled_end_ is of the first span
        });
    }

  private:
    static constexpr int kBatch = 16 * kPageTokens;  // tokens whose pages a warp looks up at once

    __device__ __forceinline__ void wait_once() {
        if (may_wait_) wait_for_launches_before();
        may_wait_ = false;
    }

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
            const int octet = octet_of(p_, page, tensor_, kv_head_, mine);
            const int tokens = min(span.end_token - batch, kBatch);
            const int fresh = fresh_ - batch;
#pragma unroll 1
            for (int token = 0; token < tokens; token += V::kTokens) {
                if (may_wait_ && batch + min(token + V::kTokens, tokens) > settled_end_) wait_once();
                load_tile(octet, token, tokens - token, fresh - token);
            }
            page = next;
        }
    }

    // Loads the tile at `token` of a batch. `octet`: in lane i, the octet of the pool's rows (map_pages) where the
    // batch's tokens [16 i, 16 i + 16) begin. `left`: tokens from there to the end of the batch. `fresh`: which of the
    // tile's tokens the launch appends; none where it is not one of the tile's.
    __device__ __forceinline__ void load_tile(int octet, int token, int left, int fresh) {
        if (started_ > 0) {
            --started_;
            ++in_flight_;
            tile_.advance();
            return;
        }
        const int boxes = (min(left, V::kTokens) + (1 << box_shift_) - 1) >> box_shift_;
        uint64_t* const full = &shared_.full[tile_.stage];
        const bool has_fresh = V::kAppends && static_cast<unsigned>(fresh) < static_cast<unsigned>(V::kTokens);
        uint64_t* const copied = has_fresh ? &shared_.before_fresh[tensor_] : full;
        std::byte* const tensor = shared_.tiles[tile_.stage] + tensor_ * V::kTensorBytes;
        barrier_wait(&shared_.empty[tile_.stage], tile_.parity ^ 1U, "an empty stage for a tile");
        if (in_flight_ < kMaxInFlight<V>) {
            ++in_flight_;
        } else {
            barrier_wait(&shared_.full[oldest_copy_.stage], oldest_copy_.parity, "the oldest copy");
            oldest_copy_.advance();
        }
        if (lane_index() == 0) {
            barrier_arrive_expect(copied, static_cast<uint32_t>((boxes << box_shift_) * V::kTokenBytes));
        }
#pragma unroll 1
        for (int box = 0; box < boxes; ++box) {
            const int at = box << box_shift_;
            copy(tensor, at, copied, __shfl_sync(kAllLanes, octet, (token + at) / kPageTokens));
        }
        if constexpr (V::kAppends) {
            if (has_fresh) {
                const int at = token + fresh;
                const int64_t first = __shfl_sync(kAllLanes, octet, at / kPageTokens);
                append(tensor, fresh, first * 8 + at % kPageTokens);
                if (lane_index() == 0) barrier_arrive(full);
            }
        }
        tile_.advance();
    }

    // Writes the row's key or value to token `fresh` of the tile, when the copies of the others have ended, and to row
    // `pool_row` of the pool (map_pages).
    __device__ __forceinline__ void append(std::byte* tensor, int fresh, int64_t pool_row) {
        using T = typename V::T;
        const ProjectedRows<T>& from = p_.projected;
        const int dim = p_.shape.head_dim;
        const bool is_key = tensor_ == 0;
        const int head = p_.shape.num_heads + tensor_ * p_.shape.num_kv_heads + kv_head_;
        ProjectedHead<T, V::kDim> made;
        made.take(is_key ? from.keys + from.key_layout.offset(row_, kv_head_)
                         : from.values + from.value_layout.offset(row_, kv_head_),
                  from.bias == nullptr ? nullptr : from.bias + static_cast<int64_t>(head) * dim,
                  is_key ? from.k_norm.weight : nullptr, from.k_norm.epsilon, dim);
        if (is_key) made.read_rotation(p_.a.rope, fresh_);
        if (p_.waits) wait_for_launches_before();
        made.read();
        barrier_wait(&shared_.before_fresh[tensor_], appended_ & 1U, "a tile's tokens before the fresh one");
        ++appended_;
        T* const page = p_.append_to + pool_row * dim;
        made.for_pairs(is_key, [&](int i, uint32_t pair) {
            const int offset = V::swizzle_offset(fresh, i / V::kBoxDims, i % V::kBoxDims / 8) + i % 8 * 2;
            *reinterpret_cast<uint32_t*>(tensor + offset) = pair;
            *reinterpret_cast<uint32_t*>(page + i) = pair;
        });
        fence_async_proxy();  // orders these writes before the next copy to this stage
        __syncwarp();
    }

    // Copies a box to the tile's tokens from `token` on.
    __device__ __forceinline__ void copy(std::byte* tensor, int token, uint64_t* full, int octet) {
        if (lane_index() == 0) copy_box<V>(map_, tensor, token, full, octet);
        __syncwarp();
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const CUtensorMap* map_;
    const int kv_head_;
    const int tensor_;
    int box_shift_;
    int settled_end_ = 0;    // the first span's tokens before this one are settled (NarrowItem::settled)
    bool may_wait_ = false;  // for the launches before this one
    int row_ = 0;            // of the item's first vector
    int fresh_ = -1;         // the token of the span's segment that is that row's own, where the launch appends
    uint32_t appended_ = 0;
    int started_ = 0;  // tiles still to come whose copies have been started
    int in_flight_ = 0;
    RingPosition<V::kTiles> tile_;
    RingPosition<V::kTiles> oldest_copy_;  // the oldest tile that may still be in flight
};

}  // namespace nanolith::cuda::narrow
