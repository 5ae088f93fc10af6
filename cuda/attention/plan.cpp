#include "attention/plan.h"

#include <algorithm>

namespace nanolith::cuda {

namespace {

// Below this an item's own costs outweigh what splitting gains.
constexpr int64_t kMinTilesPerItem = 2;

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

int choose_tile_vectors(const Batch& batch, int group) {
    int64_t most = 0;
    for (const Sequence& sequence : batch.sequences) {
        most = std::max(most, static_cast<int64_t>(sequence.num_rows) * group);
    }
    return most <= 4 ? 4 : most <= 8 ? 8 : 16;
}

// A run of query vectors of one sequence.
struct QueryTile {
    const Sequence* sequence;
    int first_vector;
    int num_vectors;
    int last_position;  // of its last row, which sees the most
};

template <typename Visit>
void for_each_query_tile(const Batch& batch, int group, int tile_vectors, const Visit& visit) {
    for (const Sequence& sequence : batch.sequences) {
        const int vectors = sequence.num_rows * group;
        for (int first = 0; first < vectors; first += tile_vectors) {
            const int count = std::min(tile_vectors, vectors - first);
            const int last_row = sequence.first_row + (first + count - 1) / group;
            visit(QueryTile{&sequence, first, count, batch.positions[static_cast<size_t>(last_row)]});
        }
    }
}

const Segment& segment_at(const Batch& batch, int index) {
    return batch.segments[static_cast<size_t>(index)];
}

int64_t count_tiles(const Batch& batch, const QueryTile& tile) {
    int64_t tiles = 0;
    for (int i = 0; i < tile.sequence->num_segments; ++i) {
        tiles += visible_tiles(segment_at(batch, tile.sequence->first_segment + i), tile.last_position);
    }
    return tiles;
}

// Walks the tiles of the sequence's segments one after the other.
class TileCursor {
  public:
    TileCursor(const Batch& batch, const QueryTile& tile)
        : batch_(batch), position_(tile.last_position), segment_(tile.sequence->first_segment) {}

    // The segment and tile where the walk stands; steps over segments that are used up.
    void place(AttentionItem& item) {
        while (tile_ >= visible_tiles(segment_at(batch_, segment_), position_)) {
            ++segment_;
            tile_ = 0;
        }
        item.segment = segment_;
        item.first_tile = tile_;
    }
    void advance(int tiles) {
        while (tiles > 0) {
            const int left = visible_tiles(segment_at(batch_, segment_), position_) - tile_;
            if (tiles < left) {
                tile_ += tiles;
                return;
            }
            tiles -= left;
            ++segment_;
            tile_ = 0;
        }
    }

  private:
    const Batch& batch_;
    int position_;
    int segment_;
    int tile_ = 0;
};

void add_items(const Batch& batch, const QueryTile& tile, int64_t tiles, int64_t tiles_per_item, AttentionPlan& plan) {
    const int64_t splits = std::max<int64_t>(1, divide_up(tiles, tiles_per_item));
    if (splits > 1) {
        plan.merges.push_back(MergeItem{tile.sequence->first_row, tile.first_vector, tile.num_vectors, plan.num_slots,
                                        static_cast<int32_t>(splits)});
    }
    TileCursor cursor(batch, tile);
    for (int64_t split = 0; split < splits; ++split) {
        AttentionItem item;
        item.first_row = tile.sequence->first_row;
        item.first_vector = tile.first_vector;
        item.num_vectors = tile.num_vectors;
        item.num_tiles = static_cast<int32_t>(tiles * (split + 1) / splits - tiles * split / splits);
        if (item.num_tiles > 0) cursor.place(item);
        cursor.advance(item.num_tiles);
        item.slot = splits > 1 ? plan.num_slots++ : -1;
        plan.items.push_back(item);
    }
}

}  // namespace

void plan_attention(const Batch& batch, int group, int num_kv_heads, int target_blocks, AttentionPlan& plan) {
    plan.items.clear();
    plan.merges.clear();
    plan.num_slots = 0;
    plan.tile_vectors = choose_tile_vectors(batch, group);

    int64_t all_tiles = 0;
    for_each_query_tile(batch, group, plan.tile_vectors,
                        [&](const QueryTile& tile) { all_tiles += count_tiles(batch, tile); });
    const int64_t tiles_per_item = std::max(kMinTilesPerItem, divide_up(all_tiles * num_kv_heads, target_blocks));
    for_each_query_tile(batch, group, plan.tile_vectors, [&](const QueryTile& tile) {
        add_items(batch, tile, count_tiles(batch, tile), tiles_per_item, plan);
    });
}

int max_attention_slots(int num_kv_heads, int target_blocks) {
    // A run of t > n tiles is split in ceil(t / n) <= 2 t / n items, with n >= all tiles * KV heads / target_blocks.
    return std::max(1, 2 * target_blocks / num_kv_heads);
}

}  // namespace nanolith::cuda
