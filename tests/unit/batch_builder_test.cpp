#include "engine/batch_builder.h"

#include <gtest/gtest.h>

#include <numeric>

namespace nanolith {
namespace {

Job job_of(int32_t base, int32_t computed, int32_t rows, std::vector<int32_t> pages) {
    Job job;
    job.own = {nullptr, std::move(pages), computed, base};
    job.tokens.resize(static_cast<size_t>(rows));
    std::iota(job.tokens.begin(), job.tokens.end(), 50);
    job.wants_token = true;
    return job;
}

TEST(BatchBuilder, RowsContinueTheirSegmentAcrossPages) {
    BatchBuilder builder(16, 100);
    Job job = job_of(1000, 15, 3, {7, 3});
    ASSERT_TRUE(builder.add(job));
    const Batch& batch = builder.batch();
    EXPECT_EQ(batch.positions, (std::vector<int32_t>{1015, 1016, 1017}));
    EXPECT_EQ(batch.key_positions, (std::vector<int32_t>{15, 16, 17}));
    EXPECT_EQ(batch.slots, (std::vector<int32_t>{7 * 16 + 15, 3 * 16, 3 * 16 + 1}));
    ASSERT_EQ(batch.segments.size(), 1U);
    EXPECT_EQ(batch.segments[0].length, 18);
    EXPECT_EQ(batch.segments[0].base, 1000);
    EXPECT_EQ(batch.output_rows, (std::vector<int32_t>{2}));
}

TEST(BatchBuilder, SlicesAPrefillAndDrawsOnlyAtItsEnd) {
    BatchBuilder builder(16, 10);
    Job job = job_of(0, 0, 25, {4, 5});
    std::vector<int32_t> positions;
    for (const int32_t rows : {10, 10, 5}) {
        builder.clear();
        ASSERT_TRUE(builder.add(job));
        EXPECT_EQ(builder.slices()[0].num_rows, rows);
        EXPECT_EQ(builder.slices()[0].output_index, job.rows_done == 20 ? 0 : -1);
        EXPECT_EQ(builder.batch().segments[0].length, job.rows_done + rows);
        positions.insert(positions.end(), builder.batch().positions.begin(), builder.batch().positions.end());
        job.rows_done += rows;
    }
    std::vector<int32_t> expected(25);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(positions, expected);
}

TEST(BatchBuilder, SharedChunksStandOnceInThePageTable) {
    BatchBuilder builder(16, 10);
    const int chunk = 0;
    Job first = job_of(40, 0, 1, {9});
    Job second = job_of(20, 0, 1, {8});
    first.history = {{&chunk, {1, 2}, 20, 20}};
    second.history = {{&chunk, {1, 2}, 20, 0}};
    ASSERT_TRUE(builder.add(first));
    ASSERT_TRUE(builder.add(second));
    const Batch& batch = builder.batch();
    EXPECT_EQ(std::vector<int32_t>(batch.page_table.begin(), batch.page_table.end()),
              (std::vector<int32_t>{1, 2, 9, 8}));
    EXPECT_EQ(batch.segments[0].first_page, batch.segments[2].first_page);
    EXPECT_EQ(batch.segments[0].base, 20);
    EXPECT_EQ(batch.segments[2].base, 0);
}

TEST(BatchBuilder, ARecomputedRowWritesNothing) {
    BatchBuilder builder(16, 10);
    Job job = job_of(5, 20, 1, {2, 6});
    job.recompute_last = true;
    ASSERT_TRUE(builder.add(job));
    EXPECT_EQ(builder.batch().slots, (std::vector<int32_t>{kNoSlot}));
    EXPECT_EQ(builder.batch().positions, (std::vector<int32_t>{24}));
    EXPECT_EQ(builder.batch().key_positions, (std::vector<int32_t>{19}));
    EXPECT_EQ(builder.batch().segments[0].length, 20);
}

TEST(BatchBuilder, RefusesWhatDoesNotFit) {
    BatchBuilder builder(16, 2);
    Job first = job_of(0, 0, 2, {0});
    Job second = job_of(0, 0, 1, {1});
    EXPECT_TRUE(builder.add(first));
    EXPECT_FALSE(builder.add(second));
    EXPECT_EQ(builder.batch().sequences.size(), 1U);
}

}  // namespace
}  // namespace nanolith
