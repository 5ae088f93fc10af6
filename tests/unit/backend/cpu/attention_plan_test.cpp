// The plan of a step's attention on the CPU: every row walks through each of its tokens once for each KV head, whatever
// rows share blocks and however tokens are divided.
#include "backend/cpu/attention_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "support/random_model.h"

namespace nanolith::cpu {
namespace {

using testing::Random;

struct Step {
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> positions;

    [[nodiscard]] AttentionStep view() const { return {{}, segments, sequences, positions}; }

    // A sequence of so many rows, the last of its context, which consists of these segments.
    void add(const std::vector<std::pair<int32_t, int32_t>>& pages_and_lengths, int32_t num_rows) {
        const auto first_row = static_cast<int32_t>(positions.size());
        const auto first_segment = static_cast<int32_t>(segments.size());
        int32_t base = 0;
        for (const auto& [first_page, length] : pages_and_lengths) {
            segments.push_back({first_page, length, base});
            base += length;
        }
        for (int32_t row = 0; row < num_rows; ++row) positions.push_back(base - num_rows + row);
        sequences.push_back({first_row, num_rows, first_segment, static_cast<int32_t>(pages_and_lengths.size())});
    }
};

// How often each (row, KV head, page, base, token) is walked through.
using Walked = std::map<std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t>, int>;

Walked expected(const Step& step, int32_t num_kv_heads) {
    Walked walked;
    for (const Sequence& sequence : step.sequences) {
        for (int32_t i = 0; i < sequence.num_rows * sequence.num_segments * num_kv_heads; ++i) {
            const int32_t row = sequence.first_row + i % sequence.num_rows;
            const int32_t place = i / sequence.num_rows % sequence.num_segments;
            const Segment& segment = step.segments[sequence.first_segment + place];
            const int32_t head = i / sequence.num_rows / sequence.num_segments;
            for (int32_t t = 0; t < segment.length; ++t) walked[{row, head, segment.first_page, segment.base, t}] = 1;
        }
    }
    return walked;
}

Walked walked_by(const AttentionPlan& plan) {
    Walked walked;
    for (const AttentionBlock& block : plan.blocks) {
        for (int32_t i = 0; i < block.num_walks; ++i) {
            const AttentionWalk& walk = plan.walks[block.first_walk + i];
            for (int32_t r = 0; r < walk.num_rows; ++r) {
                for (int32_t t = walk.begin; t < walk.end; ++t)
                    ++walked[{plan.rows[block.first_row + walk.first_row + r], block.kv_head, walk.first_page,
                              plan.bases[walk.first_base + r], t}];
            }
        }
    }
    return walked;
}

TEST(AttentionPlan, WalksThroughEachTokenOnce) {
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (int turn = 0; turn < 40; ++turn) {
        Step step;
        for (int32_t i = 0; i < 1 + random.below(12); ++i) {
            std::vector<std::pair<int32_t, int32_t>> context;
            for (int32_t place = 0; place < random.below(3); ++place)
                context.push_back({random.below(2), 100 + 150 * place});  // few kinds, so that some are shared
            const int32_t num_rows = random.below(4) == 0 ? 1 + random.below(90) : 1;
            context.push_back({1000 + i, num_rows + random.below(700)});
            step.add(context, num_rows);
        }
        const AttentionPlanOptions options{.group = 1 + random.below(4),
                                           .num_kv_heads = 1 + random.below(2),
                                           .num_threads = 1 + random.below(20),
                                           .batch_invariant = turn % 4 == 0};
        const AttentionPlan plan = plan_attention(step.view(), options);
        ASSERT_EQ(walked_by(plan), expected(step, options.num_kv_heads));
        for (const AttentionWalk& walk : plan.walks) ASSERT_EQ(walk.begin % kKeyTile, 0);
        for (const AttentionBlock& block : plan.blocks) {
            ASSERT_LE(block.num_rows, block_rows(options.group));
            ASSERT_TRUE(!options.batch_invariant || block.first_partial < 0);
        }
    }
}

// Eight conversations behind one chunk.
TEST(AttentionPlan, DecodeRowsReadASharedSegmentOnce) {
    Step step;
    for (int32_t i = 0; i < 8; ++i) step.add({{0, 2048}, {100 + i, 30 + i}}, 1);
    const auto walks_of_chunk = [&](bool batch_invariant) {
        const AttentionPlan plan = plan_attention(
            step.view(), {.group = 2, .num_kv_heads = 8, .num_threads = 2, .batch_invariant = batch_invariant});
        int64_t tokens = 0;
        for (const AttentionBlock& block : plan.blocks) {
            for (int32_t i = 0; i < block.num_walks; ++i) {
                const AttentionWalk& walk = plan.walks[block.first_walk + i];
                if (walk.first_page == 0) tokens += walk.end - walk.begin;
            }
        }
        return tokens;
    };
    EXPECT_EQ(walks_of_chunk(false), 8 * 2048);
    EXPECT_EQ(walks_of_chunk(true), 8 * 8 * 2048);
}

// One long conversation on many threads.
TEST(AttentionPlan, DividesALongContext) {
    Step step;
    step.add({{0, 10'000}}, 1);
    const auto plan_for = [&](int32_t num_threads) {
        return plan_attention(step.view(), {.group = 4, .num_kv_heads = 2, .num_threads = num_threads});
    };
    EXPECT_TRUE(plan_for(1).merges.empty());
    const AttentionPlan plan = plan_for(16);
    EXPECT_GE(plan.blocks.size(), 48U);
    EXPECT_EQ(plan.num_partials, static_cast<int64_t>(plan.blocks.size()) * 4);
    EXPECT_EQ(plan.merges.size(), 2U);
}

}  // namespace
}  // namespace nanolith::cpu
