// Plans for the short kernel by their definition (cuda/attention/plan/short_work.h): the tiles of a sequence have every
// token that its rows see, and which keys and values are of this step.
#include "attention/plan/short_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "attention/plan/plan.h"

namespace nanolith::cuda {
namespace {

// Segments of one sequence each, with pages that no other segment has.
struct ShortStep {
    std::vector<int32_t> page_table;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> positions;
    std::vector<int32_t> slots;
    std::vector<int32_t> key_positions;

    [[nodiscard]] AttentionStep input() const { return {page_table, segments, sequences, positions}; }
    [[nodiscard]] WrittenRows written() const { return {slots, key_positions}; }
};

class ShortPlanTest : public ::testing::Test {
  protected:
    void SetUp() override {
        const auto seed = std::random_device()();
        RecordProperty("seed", std::to_string(seed));
        std::printf("seed %u\n", seed);
        random_.seed(seed);
    }

    int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

    PlanShape shape() {
        constexpr std::pair<int, int> kHeads[] = {{4, 4}, {4, 2}, {16, 8}, {7, 1}, {32, 8}};
        PlanShape shape;
        std::tie(shape.num_heads, shape.num_kv_heads) = kHeads[below(5)];
        shape.head_dim = 32 << below(4);
        shape.page_size = 16 << below(5);
        shape.multiprocessors = 1 + below(140);
        shape.tile_bytes = 64 * 2 * 2 * shape.head_dim;
        shape.has_short = true;
        shape.causal = below(8) != 0;
        if (shape.causal && below(3) == 0) shape.window = 1 + below(100);
        return shape;
    }

    Segment segment(ShortStep& step, const PlanShape& shape, int length, int32_t base) {
        const auto first = static_cast<int32_t>(step.page_table.size());
        for (int done = 0; done < length; done += shape.page_size) step.page_table.push_back(next_page_++);
        return {first, length, base};
    }

    // `rows` rows at the end of a tail, after a few chunks.
    void add_sequence(ShortStep& step, const PlanShape& shape, int rows, int most_tokens) {
        Sequence sequence{static_cast<int32_t>(step.positions.size()), rows, static_cast<int32_t>(step.segments.size()),
                          1};
        int32_t base = 0;
        for (int i = below(3); i > 0; --i, ++sequence.num_segments) {
            step.segments.push_back(segment(step, shape, 1 + below(most_tokens), base));
            base += step.segments.back().length + below(2) * 100;
        }
        const Segment tail = segment(step, shape, rows + below(most_tokens), base);
        step.segments.push_back(tail);
        for (int i = 0; i < rows; ++i) {
            const int32_t at = tail.length - rows + i;
            step.positions.push_back(base + at);
            step.key_positions.push_back(at);
            step.slots.push_back(below(6) == 0
                                     ? kNoSlot
                                     : step.page_table[tail.first_page + at / shape.page_size] * shape.page_size +
                                           at % shape.page_size);
        }
        step.sequences.push_back(sequence);
    }

    ShortStep step(const PlanShape& shape) {
        ShortStep step;
        for (int rows = 1 + below(kShortRows); rows > 0;) {
            const int count = 1 + below(rows);
            add_sequence(step, shape, count, 1 + below(120));
            rows -= count;
        }
        return step;
    }

    std::mt19937 random_;
    int32_t next_page_ = 1;
};

// Each token of a sequence's tiles, by its slot: the base that it is seen from, its number, and the row that makes it.
struct Seen {
    int32_t base;
    int32_t token;
    int32_t row;
};

std::map<int32_t, Seen> tokens_of(const PlanShape& shape, const ShortPlan& plan, const ShortSequence& sequence) {
    std::map<int32_t, Seen> seen;
    for (int32_t i = 0; i < sequence.num_tiles; ++i) {
        const ShortTile& tile = plan.tiles[sequence.first_tile + i];
        for (int32_t t = 0; t < tile.count; ++t) {
            const int32_t slot = tile.page * shape.page_size + (tile.first_token + t) % shape.page_size;
            int32_t row = -1;
            for (int32_t r = 0; r < sequence.num_rows; ++r) {
                if (plan.rows[sequence.first_row + r].token == kShortTokens * i + t) row = sequence.first_row + r;
            }
            EXPECT_EQ(row >= 0, (tile.fresh >> t & 1) != 0);
            EXPECT_TRUE(seen.emplace(slot, Seen{tile.base, tile.first_token + t, row}).second) << "slot " << slot;
        }
    }
    return seen;
}

void expect_all_tokens(const PlanShape& shape, const ShortStep& step, const ShortPlan& plan) {
    ASSERT_EQ(plan.sequences.size(), step.sequences.size());
    for (size_t s = 0; s < step.sequences.size(); ++s) {
        const Sequence& sequence = step.sequences[s];
        const auto seen = tokens_of(shape, plan, plan.sequences[s]);
        for (int32_t row = sequence.first_row; row < sequence.first_row + sequence.num_rows; ++row) {
            EXPECT_EQ(plan.rows[row].position, step.positions[row]);
            for (int32_t i = 0; i < sequence.num_segments; ++i) {
                const Segment& segment = step.segments[sequence.first_segment + i];
                for (int32_t t = 0; t < segment.length; ++t) {
                    const int32_t position = segment.base + t;
                    const bool sees =
                        !shape.causal || (position <= step.positions[row] &&
                                          (shape.window == 0 || position > step.positions[row] - shape.window));
                    const int32_t slot = step.page_table[segment.first_page + t / shape.page_size] * shape.page_size +
                                         t % shape.page_size;
                    const auto found = seen.find(slot);
                    if (found == seen.end()) {
                        EXPECT_FALSE(sees) << "row " << row << ", token " << t << " of segment " << i;
                        continue;
                    }
                    EXPECT_EQ(found->second.base, segment.base);
                    EXPECT_EQ(found->second.token, t);
                }
            }
            if (step.slots[row] == kNoSlot) continue;
            ASSERT_TRUE(seen.contains(step.slots[row]));
            EXPECT_EQ(seen.at(step.slots[row]).row, row);
        }
    }
}

// What a block finds in its share: as many tiles as there is room for, and numbers of rotations that follow the bases.
void expect_shares(const PlanShape& shape, const ShortPlan& plan) {
    const ShortSizes sizes = short_sizes(plan.counts, shape.head_dim, shape.heads_per_kv());
    EXPECT_LE(sizes.bytes(), kShortSharedBytes);
    EXPECT_LE(plan.counts.sequences * shape.num_kv_heads * plan.counts.cluster,
              std::max(shape.multiprocessors, plan.counts.sequences * shape.num_kv_heads));
    for (const ShortSequence& sequence : plan.sequences) {
        EXPECT_LE(sequence.num_rows, plan.counts.rows);
        int next = 0;
        for (int rank = 0; rank < plan.counts.cluster; ++rank) {
            const ShortShare share = short_share(sequence.num_tiles, plan.counts.cluster, rank);
            EXPECT_EQ(share.first, next);
            EXPECT_LE(share.end - share.first, sizes.tiles);
            next = share.end;
            for (int i = share.first; i < share.end; ++i) {
                const ShortTile& tile = plan.tiles[sequence.first_tile + i];
                const ShortTile& before = plan.tiles[sequence.first_tile + std::max(share.first, i - 1)];
                EXPECT_EQ(tile.rotation, i == share.first ? 0 : before.rotation + (tile.base == before.base ? 0 : 1));
                EXPECT_LT(tile.rotation, plan.counts.rotations);
            }
        }
        EXPECT_EQ(next, sequence.num_tiles);
    }
}

TEST_F(ShortPlanTest, TilesHaveWhatRowsSee) {
    int taken = 0;
    for (int turn = 0; turn < 400; ++turn) {
        const PlanShape shape = this->shape();
        const ShortStep step = this->step(shape);
        ShortPlan plan;
        if (!plan_short(shape, step.input(), step.written(), plan)) continue;
        ++taken;
        expect_all_tokens(shape, step, plan);
        expect_shares(shape, plan);
        if (HasFailure()) return;
    }
    EXPECT_GT(taken, 100);
}

// Clusters are so small that some multiprocessors are left over, unless sequences need larger ones.
TEST_F(ShortPlanTest, TakesAllMultiprocessorsOnlyForLongSequences) {
    PlanShape shape;
    shape.num_heads = 16;
    shape.num_kv_heads = 8;
    shape.head_dim = 128;
    shape.page_size = 64;
    shape.multiprocessors = 132;
    shape.has_short = true;
    const auto cluster_of = [&](int sequences, int tokens) {
        ShortStep step;
        for (int i = 0; i < sequences; ++i) {
            step.sequences.push_back({i, 1, i, 1});
            step.segments.push_back(segment(step, shape, tokens, 0));
            step.positions.push_back(tokens - 1);
            step.key_positions.push_back(tokens - 1);
            step.slots.push_back(kNoSlot);
        }
        ShortPlan plan;
        plan_short(shape, step.input(), step.written(), plan);
        return plan.counts.cluster;
    };
    EXPECT_EQ(cluster_of(1, 100), 8);
    EXPECT_EQ(cluster_of(2, 100), 4);
    EXPECT_EQ(cluster_of(2, 1000), 8);
    EXPECT_EQ(cluster_of(4, 100), 2);
    EXPECT_EQ(cluster_of(4, 500), 4);
    EXPECT_EQ(cluster_of(4, 1000), 0);  // not for the short kernel
}

// A key of this step that another sequence sees, or that its own row doesn't, is written by a launch of its own.
TEST_F(ShortPlanTest, LeavesOtherStepsToOtherKernels) {
    PlanShape shape = this->shape();
    shape.multiprocessors = 132;
    shape.window = 0;
    ShortStep step;
    add_sequence(step, shape, 2, 40);
    add_sequence(step, shape, 1, 40);
    for (size_t row = 0; row < 3; ++row) {
        if (step.slots[row] == kNoSlot) step.slots[row] = 0;  // page 0 is nobody's
    }
    ShortPlan plan;
    const auto takes = [&] { return plan_short(shape, step.input(), step.written(), plan); };
    for (const int32_t slot : step.slots) {
        if (slot == 0) {
            EXPECT_FALSE(takes());
            EXPECT_EQ(plan.counts, ShortCounts());
        }
    }
    std::ranges::fill(step.slots, kNoSlot);
    EXPECT_TRUE(takes());
    const Segment& other = step.segments.back();
    step.slots[0] = step.page_table[other.first_page] * shape.page_size;  // of the second sequence's first token
    EXPECT_FALSE(takes());
    step.slots[0] = kNoSlot;
    step.slots[1] = 0;  // a slot that no segment has
    EXPECT_FALSE(takes());
    step.slots[1] = kNoSlot;

    EXPECT_FALSE(plan_short(shape, step.input(), {}, plan));  // written by others
    shape.has_short = false;
    EXPECT_FALSE(takes());
    shape.has_short = true;
    ShortStep rows;
    add_sequence(rows, shape, kShortRows + 1, 1);
    EXPECT_FALSE(plan_short(shape, rows.input(), rows.written(), plan));
    ShortStep longer;
    add_sequence(longer, shape, 1, 1);
    longer.segments.back() = segment(longer, shape, 10000, 0);
    longer.positions = {9999};
    longer.slots = {kNoSlot};
    EXPECT_FALSE(plan_short(shape, longer.input(), longer.written(), plan));
}

// A plan for the short kernel has nothing for the others, and the next one is as if it had not been.
TEST_F(ShortPlanTest, PlannersGoFromOneToTheOther) {
    PlanShape shape = this->shape();
    shape.causal = true;
    shape.window = 0;
    shape.multiprocessors = 132;
    AttentionPlanner planner(shape, 100);
    ShortStep step;
    add_sequence(step, shape, 1, 20);
    for (int turn = 0; turn < 2; ++turn) {
        const AttentionPlan& other = planner.plan(step.input());
        EXPECT_EQ(other.short_plan.counts.sequences, 0);
        EXPECT_FALSE(other.narrow.empty());
        const AttentionPlan& taken = planner.plan(step.input(), step.written());
        EXPECT_EQ(taken.short_plan.counts.sequences, 1);
        EXPECT_TRUE(taken.narrow.empty() && taken.row_partials.empty() && taken.queries.empty());
    }
}

}  // namespace
}  // namespace nanolith::cuda
