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
    const int32_t item = shares.item_kv_tiles();
    int64_t kv_tiles_left = totals_.narrow_kv_tiles;
    int64_t tiles_left = totals_.narrow_tiles;
    int block = 0;
    // The share of the block that is next: as many items are expected as there are query tiles and ends of blocks.
    const auto next_share = [&] {
        const int64_t items = tiles_left + shares.blocks() - block - 1;
        return std::max(item + 1, shares.share_of(block, kv_tiles_left + items * item));
    };
    int32_t share = next_share();
    int32_t room = share - item;  // what is left of the block's share for an item; negative: the block does more
    for (size_t i = 0; i < tiles.size(); ++i) {
        if (tiles[i].wide) continue;
        int32_t done = 0;
        do {
            const int32_t left = tiles[i].kv_tiles - done;
            const int32_t slack = shares.slack_of(share);
            if (room <= slack && left > room && block + 1 < shares.blocks()) {
                ++block;
                share = next_share();
                room = share - item;
            }
            const bool last_block = block + 1 == shares.blocks();
            const bool whole = shape_.batch_invariant || last_block || left <= room + slack;
            const int32_t count = whole ? left : room;
            add(i, done, count, block);
            of_tiles_[i].early = block < shares.early_blocks() &&
                                 (of_tiles_[i].early || shares.may_be_beside_wide(block, share - item - room));
            done += count;
            room -= count + item;
            kv_tiles_left -= count;
        } while (done < tiles[i].kv_tiles);
        --tiles_left;
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
