#include "attention/plan/splits.h"

#include <algorithm>

namespace nanolith::cuda {

void Splitter::split(std::span<const QueryTile> tiles, bool with_overlap) {
    splits_.clear();
    of_tiles_.assign(tiles.size(), TileSplits{});
    totals_.count(tiles);
    overlap_ = with_overlap ? choose_overlap(shape_, totals_) : no_overlap(shape_);
    if (totals_.narrow_tiles > 0) split_narrow(tiles);
    split_wide(tiles);
}

// Gives the blocks the narrow query tiles one after the other; a query tile is split where the share of a block ends.
void Splitter::split_narrow(std::span<const QueryTile> tiles) {
    const BlockShares shares(shape_, totals_, overlap_);
    int64_t all_left = totals_.narrow_kv_tiles;
    int block = 0;
    int32_t share = shares.share_of(block, all_left);
    int32_t room = share;  // what is left of the block's share; negative: the block does more
    for (size_t i = 0; i < tiles.size(); ++i) {
        if (tiles[i].wide) continue;
        int32_t done = 0;
        do {
            const int32_t left = tiles[i].kv_tiles - done;
            const int32_t slack = shares.slack_of(share);
            if (room <= slack && left > room && block + 1 < shares.blocks()) {
                share = shares.share_of(++block, all_left);
                room = share;
            }
            const bool last_block = block + 1 == shares.blocks();
            const bool whole = shape_.batch_invariant || last_block || left <= room + slack;
            const int32_t count = whole ? left : room;
            add(i, done, count, block);
            of_tiles_[i].early =
                block < shares.early_blocks() && (of_tiles_[i].early || shares.may_be_beside_wide(block, share - room));
            done += count;
            room -= count;
            all_left -= count;
        } while (done < tiles[i].kv_tiles);
    }
}

// Splits each wide query tile evenly.
void Splitter::split_wide(std::span<const QueryTile> tiles) {
    for (size_t i = 0; i < tiles.size(); ++i) {
        if (!tiles[i].wide) continue;
        const int32_t kv_tiles = tiles[i].kv_tiles;
        const int32_t size = wide_split_size(kv_tiles, totals_.all_wide_kv_tiles, overlap_.wide_multiprocessors);
        int32_t done = 0;
        do {
            const int32_t count = std::min(size, kv_tiles - done);
            add(i, done, count, -1);
            done += count;
        } while (done < kv_tiles);
    }
}

void Splitter::add(size_t tile, int32_t first_kv_tile, int32_t num_kv_tiles, int block) {
    of_tiles_[tile].last = static_cast<int32_t>(splits_.size());
    ++of_tiles_[tile].count;
    splits_.push_back({static_cast<int32_t>(tile), first_kv_tile, num_kv_tiles, block});
}

}  // namespace nanolith::cuda
