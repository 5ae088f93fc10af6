// ExecutorOptions::profile: each phase of each step is timed, and what it must move is added up.
#include "backend/profile.h"

#include "support/steps.h"
#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

class ProfileTest : public ExecutorTest {};

TEST_P(ProfileTest, AddsUpThePhasesOfEachStep) {
    constexpr int32_t kPrompt = 20;
    constexpr int32_t kDecodes = 6;  // the fourth one makes a graph where there are graphs, and others use it
    const RandomModel model({}, GetParam().dtype, seed_);
    Profile profile;
    ExecutorOptions options = this->options(16, 4);
    options.profile = &profile;
    auto made = backend_->create_executor(model.spec, model.weights, options, Progress());
    ASSERT_TRUE(made.ok()) << made.error().message;
    Executor& executor = **made;
    EXPECT_EQ(executor.max_in_flight(), 1);
    EXPECT_TRUE(profile.lines().empty());

    const std::vector<int32_t> table = table_of(options.num_pages);
    StepTraffic prefill{};
    StepTraffic decode{};
    int32_t drawn[1];
    for (int32_t first = 0; first < kPrompt + kDecodes; first += first == 0 ? kPrompt : 1) {
        const Batch batch = sequence_step(table, first, std::vector<int32_t>(first == 0 ? kPrompt : 1, 3));
        const Result<void> ran = run_step(executor, batch, drawn);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        const StepTraffic traffic =
            step_traffic(model.spec, matrix_bytes(model.weights, options.weights, options.dtype), options, batch);
        for (size_t i = 0; i < kNumPhases; ++i) (first == 0 ? prefill : decode)[i] += traffic[i];
    }
    EXPECT_EQ(profile.prefills().steps, 1);
    EXPECT_EQ(profile.prefills().rows, kPrompt);
    EXPECT_EQ(profile.decodes().steps, kDecodes);
    EXPECT_EQ(profile.decodes().rows, kDecodes);
    for (size_t i = 0; i < kNumPhases; ++i) {
        SCOPED_TRACE(kPhaseNames[i]);
        EXPECT_GT(profile.prefills().phases[i].seconds, 0);
        EXPECT_GT(profile.decodes().phases[i].seconds, 0);
        EXPECT_LT(profile.decodes().phases[i].seconds, 60);
        EXPECT_DOUBLE_EQ(profile.prefills().phases[i].traffic.bytes(), prefill[i].bytes());
        EXPECT_DOUBLE_EQ(profile.decodes().phases[i].traffic.bytes(), decode[i].bytes());
        EXPECT_DOUBLE_EQ(profile.decodes().phases[i].traffic.flops, decode[i].flops);
    }
    // Two tables: a line for each phase, one above them and one below.
    EXPECT_EQ(profile.lines().size(), 2 * (kNumPhases + 2));
}

INSTANTIATE_TEST_SUITE_P(Backends, ProfileTest, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace nanolith::testing
