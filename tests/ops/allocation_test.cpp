// Host memory may run out at any allocation of any call. This program makes each allocation of the calls of
// nanolith_ops.h fail in turn: every time the call must report it, change nothing, and work when it is made again.
#include "ops/device.h"
#include "support/failing_allocations.h"

namespace nanolith::test {
namespace {

constexpr int32_t kDim = 64;

class OpsAllocation : public testing::Test {
  protected:
    void SetUp() override {
        nl_ops* made = nullptr;
        NL_CHECK(nl_ops_create("cpu", 3, &made));
        ops_.reset(made);
        NL_CHECK(nl_ops_set_threads(made, 1));
        options_ = make_options(2, 1, kDim, 16, NL_DTYPE_F32);
        for (size_t i = 0; i < tensor_.size(); ++i) tensor_[i] = static_cast<float>(i % 17) * 0.1F;
    }

    // A step of `rows` sequences with 20 tokens each in the pages 0 and 1. Its arrays are made before calls fail.
    struct Step {
        explicit Step(size_t rows) : zeros(rows, 0), ones(rows, 1), lengths(rows, 20), positions(rows, 19) {}
        std::vector<int32_t> table{0, 1};
        std::vector<int32_t> zeros, ones, lengths, positions;
    };
    static nl_status set(nl_attention_plan* plan, const Step& s) {
        const size_t n = s.zeros.size();
        const nl_attention_step step{.struct_size = sizeof(step),
                                     .num_pages = 2,
                                     .page_table = s.table.data(),
                                     .num_entries = s.table.size(),
                                     .segment_first_entries = s.zeros.data(),
                                     .segment_lengths = s.lengths.data(),
                                     .segment_bases = s.zeros.data(),
                                     .num_segments = n,
                                     .sequence_rows = s.ones.data(),
                                     .sequence_segments = s.ones.data(),
                                     .num_sequences = n,
                                     .positions = s.positions.data(),
                                     .num_rows = n};
        return nl_attention_plan_set(plan, &step);
    }
    std::vector<float> run(nl_attention_plan* plan) {
        std::vector<float> out(size_t{8} * 2 * kDim, -1);
        NL_EXPECT(attention_run(plan, {tensor_.data(), 2 * kDim, kDim}, tensor_.data(), {out.data(), 2 * kDim, kDim}));
        return out;
    }

    Ops ops_;
    AttentionOptions options_;
    std::vector<float> tensor_ = std::vector<float>(size_t{2} * 2 * 16 * kDim);
};

TEST_F(OpsAllocation, CreateIsWholeOrNothing) {
    nl_ops* ops = nullptr;
    fail_each_allocation([&] { return nl_ops_create("cpu", 3, &ops); }, [&] { EXPECT_EQ(ops, nullptr); });
    const Ops owned(ops);
    nl_attention_options* options = nullptr;
    fail_each_allocation([&] { return nl_attention_options_create(&options); }, [&] { EXPECT_EQ(options, nullptr); });
    const AttentionOptions owned_options(options);
    const std::vector<float> frequencies(kDim / 2, 0.1F);
    fail_each_allocation([&] { return nl_attention_options_set_rope(options, frequencies.data(), kDim / 2, 99); },
                         [] {});
    nl_attention_plan* plan = nullptr;
    auto capacity = sized<nl_attention_capacity>();
    capacity.max_rows = capacity.max_sequences = capacity.max_segments = capacity.max_page_table = 8;
    fail_each_allocation([&] { return nl_attention_plan_create(ops, options_.get(), &capacity, &plan); },
                         [&] { EXPECT_EQ(plan, nullptr); });
    const AttentionPlan owned_plan(plan);
    NL_CHECK(set(plan, Step(1)));
}

TEST_F(OpsAllocation, RefusedStepLeavesTheOneBefore) {
    const AttentionPlan plan = make_plan(ops_.get(), options_.get(), 8, 8, 8, 8);
    NL_CHECK(set(plan.get(), Step(1)));
    const std::vector<float> before = run(plan.get());
    const Step larger(8);
    fail_each_allocation([&] { return set(plan.get(), larger); }, [&] { EXPECT_EQ(run(plan.get()), before); });
    EXPECT_NE(run(plan.get()), before);
}

TEST_F(OpsAllocation, SlotsAndAppend) {
    const AttentionPlan plan = make_plan(ops_.get(), options_.get(), 8, 8, 8, 8);
    const std::vector<int32_t> slots{0, 1, 2, 3};
    auto step = sized<nl_append_step>();
    step.num_pages = 2;
    step.slots = slots.data();
    step.num_rows = slots.size();
    fail_each_allocation([&] { return nl_attention_plan_set_slots(plan.get(), &step); }, [] {});
    std::vector<float> pages(tensor_.size(), -1);
    const nl_const_rows rows{tensor_.data(), kDim, kDim};
    NL_CHECK(kv_append(plan.get(), rows, rows, pages.data()));
    EXPECT_EQ(pages[0], tensor_[0]);
    EXPECT_EQ(pages[size_t{4} * kDim], -1.0F);
}

TEST_F(OpsAllocation, CacheKeepsItsTokens) {
    nl_kv_cache* cache = nullptr;
    std::vector<float> out(size_t{2} * 2 * 9 * kDim);
    const auto call = [&](int64_t tokens) {
        auto arguments = sized<nl_with_cache_arguments>();
        arguments.batch = 2;
        arguments.num_tokens = tokens;
        arguments.q.data = arguments.k.data = arguments.v.data = tensor_.data();
        arguments.out.data = out.data();
        arguments.update = 1;
        arguments.max_length = 40;
        return nl_attention_with_cache(ops_.get(), options_.get(), &arguments, &cache);
    };
    const auto held = [&] {
        std::vector<int64_t> lengths(2);
        size_t count = 0;
        NL_EXPECT(nl_kv_cache_lengths(cache, lengths.data(), 2, &count));
        return lengths;
    };
    fail_each_allocation([&] { return call(1); }, [&] { EXPECT_EQ(cache, nullptr); });
    const KvCache owned(cache);
    EXPECT_EQ(held(), (std::vector<int64_t>{1, 1}));
    fail_each_allocation([&] { return call(8); }, [&] { EXPECT_EQ(held(), (std::vector<int64_t>{1, 1})); });
    EXPECT_EQ(held(), (std::vector<int64_t>{9, 9}));
}

TEST_F(OpsAllocation, MergeNormRope) {
    std::vector<float> y(kDim);
    const std::vector<int32_t> positions{3};
    const float lse = 1;
    auto merge = sized<nl_merge_arguments>();
    merge.dtype = NL_DTYPE_F32;
    merge.num_heads = 1;
    merge.head_dim = kDim;
    merge.num_parts = merge.num_rows = 1;
    merge.outputs.data = tensor_.data();
    merge.lse = &lse;
    merge.out.data = y.data();
    fail_each_allocation([&] { return nl_attention_merge(ops_.get(), &merge); }, [] {});
    const nl_rms_norm_arguments norm{.struct_size = sizeof(norm),
                                     .dtype = NL_DTYPE_F32,
                                     .num_heads = 1,
                                     .size = kDim,
                                     .epsilon = 1e-5F,
                                     .num_rows = 1,
                                     .x = {tensor_.data(), kDim, kDim},
                                     .weight = tensor_.data(),
                                     .y = {y.data(), kDim, kDim}};
    fail_each_allocation([&] { return nl_rms_norm(ops_.get(), &norm); }, [] {});
    const nl_rope_arguments rope{.struct_size = sizeof(rope),
                                 .dtype = NL_DTYPE_F32,
                                 .num_heads = 1,
                                 .head_dim = kDim,
                                 .num_rows = 1,
                                 .x = {tensor_.data(), kDim, kDim},
                                 .positions = positions.data(),
                                 .frequencies = tensor_.data(),
                                 .y = {y.data(), kDim, kDim}};
    fail_each_allocation([&] { return nl_rope(ops_.get(), &rope); }, [] {});
}

}  // namespace
}  // namespace nanolith::test
