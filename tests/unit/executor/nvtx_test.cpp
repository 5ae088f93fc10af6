// The ranges that a profiler sees of steps on a GPU.
#include <dlfcn.h>

#include <cstdlib>

#include "backend/phase.h"
#include "unit/executor/executor_fixture.h"
#include "unit/executor/nvtx_listener.h"

namespace nanolith::testing {
namespace {

#ifdef NL_TEST_NVTX_LISTENER
// NVTX looks for a listener at its first call in a process, which any test before these may make.
const bool kListens = setenv("NVTX_INJECTION64_PATH", NL_TEST_NVTX_LISTENER, 1) == 0;

class NvtxTest : public ExecutorTest {
  protected:
    std::vector<ListenedRange> take() {
        void* const library = dlopen(NL_TEST_NVTX_LISTENER, RTLD_NOW | RTLD_NOLOAD);
        if (library == nullptr) return {};
        const auto take_ranges = reinterpret_cast<TakeRanges>(dlsym(library, kTakeRanges));
        std::vector<ListenedRange> taken;
        take_ranges(taken);
        dlclose(library);
        return taken;
    }
};

// "name rows" of each range, in order, behind a space for each range that it is in.
std::vector<std::string> lines(const std::vector<ListenedRange>& ranges) {
    std::vector<std::string> result;
    for (const ListenedRange& range : ranges)
        result.push_back(std::string(static_cast<size_t>(range.depth), ' ') + range.name + ' ' +
                         std::to_string(range.payload));
    return result;
}

TEST_P(NvtxTest, StepsAndTheirPhasesAreRanges) {
    ASSERT_TRUE(kListens);
    const RandomShape shape{.num_layers = 2, .hidden_size = 32};
    RandomModel model(shape, GetParam().dtype, seed_);
    PagedHarness harness(*backend_, model, options(16, 8, 16), seed_);
    ASSERT_TRUE(harness.ready());
    take();
    Store tail;
    OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(5)}});
    std::vector<int32_t> sampled(batch.output_rows.size());
    ASSERT_TRUE(run_step(harness.executor(), batch, sampled).ok());
    const auto ranges = take();
    if (ranges.empty()) GTEST_SKIP() << "the listener is not loaded: " << NL_TEST_NVTX_LISTENER;
    const std::string outputs = std::to_string(batch.output_rows.size());
    std::vector<std::string> expected = {"step 5"};
    for (int32_t layer = 0; layer < shape.num_layers; ++layer)
        for (size_t phase = 0; phase + 1 < kNumPhases; ++phase)
            expected.push_back(std::string(" ") + kPhaseNames[phase] + " 5");
    expected.emplace_back(" head 5");
    expected.push_back("wait " + outputs);
    EXPECT_EQ(lines(ranges), expected);
    for (const ListenedRange& range : ranges) EXPECT_EQ(range.domain, "nanolith");

    batch.draws_late = true;
    ASSERT_TRUE(harness.executor().submit(batch).ok());
    ASSERT_TRUE(harness.executor().submit_draws(batch).ok());
    ASSERT_TRUE(harness.executor().collect(sampled).ok());
    expected.insert(expected.end() - 1, "draws " + outputs);
    EXPECT_EQ(lines(take()), expected);
}

INSTANTIATE_TEST_SUITE_P(Gpu, NvtxTest, ::testing::Values(Case{"CUDA_bfloat16", true, DType::bf16}),
                         [](const auto& test) { return std::string(test.param.name); });
#endif

}  // namespace
}  // namespace nanolith::testing
