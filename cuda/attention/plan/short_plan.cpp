#include "attention/plan/short_plan.h"

#include <algorithm>
#include <bit>

namespace nanolith::cuda {

namespace {

class ShortPlanner {
  public:
    ShortPlanner(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written, ShortPlan& plan)
        : shape_(shape), step_(step), written_(written), plan_(plan) {}

    bool make() {
        if (!may_be_short()) return false;
        for (size_t row = 0; row < step_.positions.size(); ++row)
            plan_.rows.push_back({step_.positions[row], written_.key_positions[row], written_.slots[row], -1});
        for (const Sequence& sequence : step_.sequences) {
            const auto first_tile = static_cast<int32_t>(plan_.tiles.size());
            add_tiles(sequence);
            const auto num_tiles = static_cast<int32_t>(plan_.tiles.size()) - first_tile;
            plan_.sequences.push_back({sequence.first_row, sequence.num_rows, first_tile, num_tiles});
            if (num_tiles > kMostShortBlocks * kMostTiles || !find_own(sequence, first_tile)) return false;
        }
        // With a block for every multiprocessor some blocks must share one: a cluster's multiprocessors are all of one
        // part of the GPU (a GPC), and a part often has some over. On an H200, of 132, clusters of eight can have at
        // most 112 to themselves; with 128 blocks in place of 64 a step of two rows of Qwen3-0.6B took 13% longer. So
        // an eighth is left over, unless sequences are too long for the smaller clusters.
        return fits(shape_.multiprocessors * 7 / 8) || fits(shape_.multiprocessors);
    }

  private:
    static constexpr int32_t kMostTiles = 64;  // more than a block has room for

    [[nodiscard]] bool may_be_short() const {
        const size_t rows = step_.positions.size();
        return shape_.has_short && rows > 0 && rows <= kShortRows && written_.slots.size() == rows &&
               std::ranges::all_of(step_.sequences, [](const Sequence& s) { return s.num_rows > 0; });
    }

    // Gives each sequence and KV head a cluster, as large as it may be if all of them together have at most `blocks`
    // blocks (a cluster has one at least). Returns whether every sequence's tiles fit in its cluster's shared memory.
    bool fits(int32_t blocks) {
        int32_t rows = 1;
        for (const Sequence& sequence : step_.sequences) rows = std::max(rows, sequence.num_rows);
        const auto sequences = static_cast<int32_t>(step_.sequences.size());
        const int32_t each = std::max(1, blocks / (shape_.num_kv_heads * sequences));
        const auto cluster = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(each)));
        plan_.counts = {sequences, std::min(cluster, kMostShortBlocks),
                        static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows))), 1};
        for (const ShortSequence& sequence : plan_.sequences) number_rotations(sequence.first_tile, sequence.num_tiles);
        plan_.counts.rotations = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(plan_.counts.rotations)));
        const ShortSizes sizes = short_sizes(plan_.counts, shape_.head_dim, shape_.heads_per_kv());
        return std::ranges::all_of(plan_.sequences, [&](const ShortSequence& sequence) {
            return short_share(sequence.num_tiles, sizes.cluster, 0).end <= sizes.tiles;
        });
    }

    // The tiles that the sequence's rows attend to.
    void add_tiles(const Sequence& sequence) {
        const int32_t first_position = step_.positions[sequence.first_row];
        const int32_t last_position = step_.positions[sequence.first_row + sequence.num_rows - 1];
        for (const Segment& segment : step_.segments.subspan(sequence.first_segment, sequence.num_segments)) {
            int32_t begin = 0;
            int32_t end = segment.length;
            if (shape_.causal) {
                end = std::min(end, last_position - segment.base + 1);
                if (shape_.window > 0) begin = std::max(0, first_position - segment.base - shape_.window + 1);
            }
            for (int32_t token = begin / kShortTokens * kShortTokens; token < end; token += kShortTokens) {
                const int32_t page = step_.page_table[segment.first_page + token / shape_.page_size];
                const int32_t count = std::min(kShortTokens, segment.length - token);
                plan_.tiles.push_back({page, token, segment.base, static_cast<uint8_t>(count), 0, 0});
                if (plan_.tiles.size() > size_t{kMostShortBlocks} * kMostTiles) return;
            }
        }
    }

    // Marks the tokens of the sequence's tiles that rows of this step write. False where one is another sequence's row,
    // or there twice, or a row's own is not there.
    bool find_own(const Sequence& sequence, int32_t first_tile) {
        const auto num_tiles = static_cast<int32_t>(plan_.tiles.size()) - first_tile;
        for (int32_t row = 0; row < static_cast<int32_t>(plan_.rows.size()); ++row) {
            ShortRow& written = plan_.rows[row];
            if (written.slot == kNoSlot) continue;
            const bool own = row >= sequence.first_row && row < sequence.first_row + sequence.num_rows;
            const int32_t page = written.slot / shape_.page_size;
            const int32_t offset = written.slot % shape_.page_size;
            for (int32_t i = 0; i < num_tiles; ++i) {
                ShortTile& tile = plan_.tiles[first_tile + i];
                const int32_t token = offset - tile.first_token % shape_.page_size;
                if (tile.page != page || token < 0 || token >= tile.count) continue;
                if (!own || written.token >= 0 || (tile.fresh >> token & 1) != 0) return false;
                tile.fresh = static_cast<uint16_t>(tile.fresh | 1 << token);
                written.token = kShortTokens * i + token;
            }
            if (own && written.token < 0) return false;
        }
        return true;
    }

    void number_rotations(int32_t first_tile, int32_t num_tiles) {
        for (int32_t rank = 0; rank < plan_.counts.cluster; ++rank) {
            const ShortShare share = short_share(num_tiles, plan_.counts.cluster, rank);
            if (share.first < share.end) plan_.tiles[first_tile + share.first].rotation = 0;
            for (int32_t i = share.first + 1; i < share.end; ++i) {
                ShortTile& tile = plan_.tiles[first_tile + i];
                const ShortTile& before = plan_.tiles[first_tile + i - 1];
                tile.rotation = static_cast<uint8_t>(before.rotation + (tile.base != before.base ? 1 : 0));
                plan_.counts.rotations = std::max(plan_.counts.rotations, tile.rotation + 1);
            }
        }
    }

    const PlanShape& shape_;
    const AttentionStep& step_;
    const WrittenRows& written_;
    ShortPlan& plan_;
};

}  // namespace

bool plan_short(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written, ShortPlan& plan) {
    plan.counts = {};
    plan.sequences.clear();
    plan.tiles.clear();
    plan.rows.clear();
    if (ShortPlanner(shape, step, written, plan).make()) return true;
    plan.counts = {};
    return false;
}

}  // namespace nanolith::cuda
